"""Settings over the wire: DescribeConfigs, IncrementalAlterConfigs and AlterConfigs for one resource."""

from __future__ import annotations

from milepost.protocol.messages import AlterConfigsRequest, DescribeConfigsRequest, IncrementalAlterConfigsRequest
from tests.broker.wire import Wire

TOPIC, BROKER, GROUP = 2, 4, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


def describe(wire: Wire, kind: int, name: str, *keys: str, synonyms: bool = True, documentation: bool = False, version: int = 4):
    resource = DescribeConfigsRequest.Resource(resource_type=kind, resource_name=name, configuration_keys=list(keys) or None)
    request = DescribeConfigsRequest(
        resources=[resource], include_synonyms=synonyms, include_documentation=documentation and version >= 3
    )
    (result,) = wire.ask(request, version).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


def configs(wire: Wire, kind: int, name: str, *keys: str) -> dict:
    """name → (value, source, [(synonym, value, source)])."""
    result = describe(wire, kind, name, *keys)
    assert result.error_code == 0, result.error_message
    return {
        config.name: (
            config.value,
            config.config_source,
            [(synonym.name, synonym.value, synonym.source) for synonym in config.synonyms],
        )
        for config in result.configs
    }


def alter(
    wire: Wire, kind: int, name: str, *operations: tuple[str, int, str | None], validate_only: bool = False, version: int = 1
):
    """(error code, message) of IncrementalAlterConfigs."""
    resource = IncrementalAlterConfigsRequest.Resource
    changes = [resource.Config(name=key, config_operation=operation, value=value) for key, operation, value in operations]
    request = IncrementalAlterConfigsRequest(
        resources=[resource(resource_type=kind, resource_name=name, configs=changes)], validate_only=validate_only
    )
    (response,) = wire.ask(request, version).responses
    assert (response.resource_type, response.resource_name) == (kind, name)
    return response.error_code, response.error_message


def replace(wire: Wire, kind: int, name: str, validate_only: bool = False, version: int = 2, **settings: str | None):
    """(error code, message) of AlterConfigs."""
    resource = AlterConfigsRequest.Resource
    changes = [resource.Config(name=key.replace("_", "."), value=value) for key, value in settings.items()]
    request = AlterConfigsRequest(
        resources=[resource(resource_type=kind, resource_name=name, configs=changes)], validate_only=validate_only
    )
    (response,) = wire.ask(request, version).responses
    return response.error_code, response.error_message

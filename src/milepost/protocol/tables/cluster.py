"""The cluster and its settings: versions, configs, quotas, features, telemetry, quorum.

The notation is explained in `protocol/schema.py`.
"""

TABLE = """
ApiVersions
  request
    client_software_name: string 3+ ~, client_software_version: string 3+ ~
  response
    error_code: int16
    api_keys: []
      api_key: int16, min_version: int16, max_version: int16
    throttle_time_ms: int32 1+ ~
    supported_features: [] 3+ #0 ~
      name: string, min_version: int16, max_version: int16
    finalized_features_epoch: int64 3+ #1 = -1 ~
    finalized_features: [] 3+ #2 ~
      name: string, max_version_level: int16, min_version_level: int16
    zk_migration_ready: bool 3+ #3 ~

DescribeConfigs
  request
    resources: []
      resource_type: int8, resource_name: string, configuration_keys: []string?
    include_synonyms: bool 1+, include_documentation: bool 3+
  response
    throttle_time_ms: int32
    results: []
      error_code: int16, error_message: string?, resource_type: int8, resource_name: string
      configs: []
        name: string, value: string?, read_only: bool, is_default: bool 0 ~, config_source: int8 1+ = -1 ~
        is_sensitive: bool
        synonyms: [] 1+ ~
          name: string, value: string?, source: int8
        config_type: int8 3+ ~, documentation: string? 3+ ~

AlterConfigs
  request
    resources: []
      resource_type: int8, resource_name: string
      configs: []
        name: string, value: string?
    validate_only: bool
  response
    throttle_time_ms: int32
    responses: []
      error_code: int16, error_message: string?, resource_type: int8, resource_name: string

IncrementalAlterConfigs
  request
    resources: []
      resource_type: int8, resource_name: string
      configs: []
        name: string, config_operation: int8, value: string?
    validate_only: bool
  response
    throttle_time_ms: int32
    responses: []
      error_code: int16, error_message: string?, resource_type: int8, resource_name: string

DescribeClientQuotas
  request
    components: []
      entity_type: string, match_type: int8, match: string?
    strict: bool
  response
    throttle_time_ms: int32, error_code: int16, error_message: string?
    entries: []?
      entity: []
        entity_type: string, entity_name: string?
      values: []
        key: string, value: float64

AlterClientQuotas
  request
    entries: []
      entity: []
        entity_type: string, entity_name: string?
      ops: []
        key: string, value: float64, remove: bool
    validate_only: bool
  response
    throttle_time_ms: int32
    entries: []
      error_code: int16, error_message: string?
      entity: []
        entity_type: string, entity_name: string?

DescribeQuorum
  request
    topics: []
      topic_name: string
      partitions: []
        partition_index: int32
  response
    error_code: int16, error_message: string? 2+ ~
    topics: []
      topic_name: string
      partitions: []
        partition_index: int32, error_code: int16, error_message: string? 2+ ~, leader_id: int32, leader_epoch: int32
        high_watermark: int64
        current_voters: []
          replica_id: int32, replica_directory_id: uuid 2+, log_end_offset: int64
          last_fetch_timestamp: int64 1+ = -1 ~, last_caught_up_timestamp: int64 1+ = -1 ~
        observers: []
          replica_id: int32, replica_directory_id: uuid 2+, log_end_offset: int64
          last_fetch_timestamp: int64 1+ = -1 ~, last_caught_up_timestamp: int64 1+ = -1 ~
    nodes: [] 2+
      node_id: int32
      listeners: []
        name: string, host: string, port: uint16

UpdateFeatures
  request
    timeout_ms: int32 = 60000
    feature_updates: []
      feature: string, max_version_level: int16, allow_downgrade: bool 0, upgrade_type: int8 1+ = 1
    validate_only: bool 1+
  response
    throttle_time_ms: int32, error_code: int16, error_message: string?
    results: [] 0-1 ~
      feature: string, error_code: int16, error_message: string?

DescribeCluster
  request
    include_cluster_authorized_operations: bool, endpoint_type: int8 1+ = 1, include_fenced_brokers: bool 2+
  response
    throttle_time_ms: int32, error_code: int16, error_message: string? = null, endpoint_type: int8 1+ = 1
    cluster_id: string, controller_id: int32 = -1
    brokers: []
      broker_id: int32, host: string, port: int32, rack: string? = null, is_fenced: bool 2+
    cluster_authorized_operations: int32 = -2147483648

UnregisterBroker
  request
    broker_id: int32
  response
    throttle_time_ms: int32, error_code: int16, error_message: string?

GetTelemetrySubscriptions
  request
    client_instance_id: uuid
  response
    throttle_time_ms: int32, error_code: int16, client_instance_id: uuid, subscription_id: int32
    accepted_compression_types: []int8, push_interval_ms: int32, telemetry_max_bytes: int32, delta_temporality: bool
    requested_metrics: []string

PushTelemetry
  request
    client_instance_id: uuid, subscription_id: int32, terminating: bool, compression_type: int8, metrics: bytes
  response
    throttle_time_ms: int32, error_code: int16

ListConfigResources
  request
    resource_types: []int8 1+
  response
    throttle_time_ms: int32, error_code: int16
    config_resources: []
      resource_name: string, resource_type: int8 1+ = 16 ~

RemoveRaftVoter
  request
    cluster_id: string?, voter_id: int32, voter_directory_id: uuid
  response
    throttle_time_ms: int32, error_code: int16, error_message: string?
"""

"""Authentication, access control lists, credentials and delegation tokens.

The notation is explained in `protocol/schema.py`.
"""

TABLE = """
SaslHandshake
  request
    mechanism: string
  response
    error_code: int16, mechanisms: []string

DescribeAcls
  request
    resource_type_filter: int8, resource_name_filter: string?, pattern_type_filter: int8 1+ = 3
    principal_filter: string?, host_filter: string?, operation: int8, permission_type: int8
  response
    throttle_time_ms: int32, error_code: int16, error_message: string?
    resources: []
      resource_type: int8, resource_name: string, pattern_type: int8 1+ = 3
      acls: []
        principal: string, host: string, operation: int8, permission_type: int8

CreateAcls
  request
    creations: []
      resource_type: int8, resource_name: string, resource_pattern_type: int8 1+ = 3, principal: string, host: string
      operation: int8, permission_type: int8
  response
    throttle_time_ms: int32
    results: []
      error_code: int16, error_message: string?

DeleteAcls
  request
    filters: []
      resource_type_filter: int8, resource_name_filter: string?, pattern_type_filter: int8 1+ = 3
      principal_filter: string?, host_filter: string?, operation: int8, permission_type: int8
  response
    throttle_time_ms: int32
    filter_results: []
      error_code: int16, error_message: string?
      matching_acls: []
        error_code: int16, error_message: string?, resource_type: int8, resource_name: string
        pattern_type: int8 1+ = 3, principal: string, host: string, operation: int8, permission_type: int8

SaslAuthenticate
  request
    auth_bytes: bytes
  response
    error_code: int16, error_message: string?, auth_bytes: bytes, session_lifetime_ms: int64 1+ ~

CreateDelegationToken
  request
    owner_principal_type: string? 3+, owner_principal_name: string? 3+
    renewers: []
      principal_type: string, principal_name: string
    max_lifetime_ms: int64
  response
    error_code: int16, principal_type: string, principal_name: string, token_requester_principal_type: string 3+
    token_requester_principal_name: string 3+, issue_timestamp_ms: int64, expiry_timestamp_ms: int64
    max_timestamp_ms: int64, token_id: string, hmac: bytes, throttle_time_ms: int32

RenewDelegationToken
  request
    hmac: bytes, renew_period_ms: int64
  response
    error_code: int16, expiry_timestamp_ms: int64, throttle_time_ms: int32

ExpireDelegationToken
  request
    hmac: bytes, expiry_time_period_ms: int64
  response
    error_code: int16, expiry_timestamp_ms: int64, throttle_time_ms: int32

DescribeDelegationToken
  request
    owners: []?
      principal_type: string, principal_name: string
  response
    error_code: int16
    tokens: []
      principal_type: string, principal_name: string, token_requester_principal_type: string 3+
      token_requester_principal_name: string 3+, issue_timestamp: int64, expiry_timestamp: int64, max_timestamp: int64
      token_id: string, hmac: bytes
      renewers: []
        principal_type: string, principal_name: string
    throttle_time_ms: int32

DescribeUserScramCredentials
  request
    users: []?
      name: string
  response
    throttle_time_ms: int32, error_code: int16, error_message: string?
    results: []
      user: string, error_code: int16, error_message: string?
      credential_infos: []
        mechanism: int8, iterations: int32

AlterUserScramCredentials
  request
    deletions: []
      name: string, mechanism: int8
    upsertions: []
      name: string, mechanism: int8, iterations: int32, salt: bytes, salted_password: bytes
  response
    throttle_time_ms: int32
    results: []
      user: string, error_code: int16, error_message: string?
"""

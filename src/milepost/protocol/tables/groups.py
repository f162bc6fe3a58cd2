"""Groups and their offsets: the classic protocol, and the consumer protocol of KIP-848.

The notation is explained in `protocol/schema.py`.
"""

TABLE = """
OffsetCommit
  request
    group_id: string, generation_id_or_member_epoch: int32 1+ = -1 ~, member_id: string 1+ ~
    group_instance_id: string? 7+ = null, retention_time_ms: int64 2-4 = -1 ~
    topics: []
      name: string 0-9 ~, topic_id: uuid 10+ ~
      partitions: []
        partition_index: int32, committed_offset: int64, committed_leader_epoch: int32 6+ = -1 ~
        commit_timestamp: int64 1 = -1, committed_metadata: string?
  response
    throttle_time_ms: int32 3+ ~
    topics: []
      name: string 0-9 ~, topic_id: uuid 10+ ~
      partitions: []
        partition_index: int32, error_code: int16

OffsetFetch
  request
    group_id: string 0-7
    topics: []?2-7 0-7
      name: string, partition_indexes: []int32
    groups: [] 8+
      group_id: string, member_id: string? 9+ = null ~, member_epoch: int32 9+ = -1 ~
      topics: []?
        name: string 8-9 ~, topic_id: uuid 10+ ~, partition_indexes: []int32
    require_stable: bool 7+
  response
    throttle_time_ms: int32 3+ ~
    topics: [] 0-7
      name: string
      partitions: []
        partition_index: int32, committed_offset: int64, committed_leader_epoch: int32 5-7 = -1 ~, metadata: string?
        error_code: int16
    error_code: int16 2-7 ~
    groups: [] 8+
      group_id: string
      topics: []
        name: string 8-9 ~, topic_id: uuid 10+ ~
        partitions: []
          partition_index: int32, committed_offset: int64, committed_leader_epoch: int32 = -1, metadata: string?
          error_code: int16
      error_code: int16

FindCoordinator
  request
    key: string 0-3, key_type: int8 1+, coordinator_keys: []string 4+
  response
    throttle_time_ms: int32 1+ ~, error_code: int16 0-3, error_message: string? 1-3 ~, node_id: int32 0-3
    host: string 0-3, port: int32 0-3
    coordinators: [] 4+
      key: string, node_id: int32, host: string, port: int32, error_code: int16, error_message: string?

JoinGroup
  request
    group_id: string, session_timeout_ms: int32, rebalance_timeout_ms: int32 1+ = -1 ~, member_id: string
    group_instance_id: string? 5+ = null, protocol_type: string
    protocols: []
      name: string, metadata: bytes
    reason: string? 8+ = null ~
  response
    throttle_time_ms: int32 2+ ~, error_code: int16, generation_id: int32 = -1, protocol_type: string? 7+ = null ~
    protocol_name: string?7+, leader: string, skip_assignment: bool 9+, member_id: string
    members: []
      member_id: string, group_instance_id: string? 5+ = null ~, metadata: bytes

Heartbeat
  request
    group_id: string, generation_id: int32, member_id: string, group_instance_id: string? 3+ = null
  response
    throttle_time_ms: int32 1+ ~, error_code: int16

LeaveGroup
  request
    group_id: string, member_id: string 0-2
    members: [] 3+
      member_id: string, group_instance_id: string? = null, reason: string? 5+ = null ~
  response
    throttle_time_ms: int32 1+ ~, error_code: int16
    members: [] 3+
      member_id: string, group_instance_id: string?, error_code: int16

SyncGroup
  request
    group_id: string, generation_id: int32, member_id: string, group_instance_id: string? 3+ = null
    protocol_type: string? 5+ = null ~, protocol_name: string? 5+ = null ~
    assignments: []
      member_id: string, assignment: bytes
  response
    throttle_time_ms: int32 1+ ~, error_code: int16, protocol_type: string? 5+ = null ~
    protocol_name: string? 5+ = null ~, assignment: bytes

DescribeGroups
  request
    groups: []string, include_authorized_operations: bool 3+
  response
    throttle_time_ms: int32 1+ ~
    groups: []
      error_code: int16, error_message: string? 6+ = null, group_id: string, group_state: string
      protocol_type: string, protocol_data: string
      members: []
        member_id: string, group_instance_id: string? 4+ = null ~, client_id: string, client_host: string
        member_metadata: bytes, member_assignment: bytes
      authorized_operations: int32 3+ = -2147483648

ListGroups
  request
    states_filter: []string 4+, types_filter: []string 5+
  response
    throttle_time_ms: int32 1+ ~, error_code: int16
    groups: []
      group_id: string, protocol_type: string, group_state: string 4+ ~, group_type: string 5+ ~

DeleteGroups
  request
    groups_names: []string
  response
    throttle_time_ms: int32
    results: []
      group_id: string, error_code: int16

OffsetDelete
  request
    group_id: string
    topics: []
      name: string
      partitions: []
        partition_index: int32
  response
    error_code: int16, throttle_time_ms: int32
    topics: []
      name: string
      partitions: []
        partition_index: int32, error_code: int16

ConsumerGroupHeartbeat
  request
    group_id: string, member_id: string, member_epoch: int32, instance_id: string? = null, rack_id: string? = null
    rebalance_timeout_ms: int32 = -1, subscribed_topic_names: []string? = null
    subscribed_topic_regex: string? 1+ = null, server_assignor: string? = null
    topic_partitions: []? = null
      topic_id: uuid, partitions: []int32
  response
    throttle_time_ms: int32, error_code: int16, error_message: string? = null, member_id: string? = null
    member_epoch: int32, heartbeat_interval_ms: int32
    assignment: {}? = null
      topic_partitions: []
        topic_id: uuid, partitions: []int32

ConsumerGroupDescribe
  request
    group_ids: []string, include_authorized_operations: bool
  response
    throttle_time_ms: int32
    groups: []
      error_code: int16, error_message: string? = null, group_id: string, group_state: string, group_epoch: int32
      assignment_epoch: int32, assignor_name: string
      members: []
        member_id: string, instance_id: string? = null, rack_id: string? = null, member_epoch: int32
        client_id: string, client_host: string, subscribed_topic_names: []string
        subscribed_topic_regex: string? = null
        assignment: {}
          topic_partitions: []
            topic_id: uuid, topic_name: string, partitions: []int32
        target_assignment: {}
          topic_partitions: []
            topic_id: uuid, topic_name: string, partitions: []int32
        member_type: int8 1+ = -1 ~
      authorized_operations: int32 = -2147483648
"""

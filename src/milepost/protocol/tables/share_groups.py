"""Share groups (KIP-932): the members' requests and the state behind them.

The notation is explained in `protocol/schema.py`.
"""

TABLE = """
ShareGroupHeartbeat
  request
    group_id: string, member_id: string, member_epoch: int32, rack_id: string? = null
    subscribed_topic_names: []string? = null
  response
    throttle_time_ms: int32, error_code: int16, error_message: string? = null, member_id: string? = null
    member_epoch: int32, heartbeat_interval_ms: int32
    assignment: {}? = null
      topic_partitions: []
        topic_id: uuid, partitions: []int32

ShareGroupDescribe
  request
    group_ids: []string, include_authorized_operations: bool
  response
    throttle_time_ms: int32
    groups: []
      error_code: int16, error_message: string? = null, group_id: string, group_state: string, group_epoch: int32
      assignment_epoch: int32, assignor_name: string
      members: []
        member_id: string, rack_id: string? = null, member_epoch: int32, client_id: string, client_host: string
        subscribed_topic_names: []string
        assignment: {}
          topic_partitions: []
            topic_id: uuid, topic_name: string, partitions: []int32
      authorized_operations: int32 = -2147483648

ShareFetch
  request
    group_id: string? = null, member_id: string?, share_session_epoch: int32, max_wait_ms: int32, min_bytes: int32
    max_bytes: int32 = 2147483647, max_records: int32 1+, batch_size: int32 1+, share_acquire_mode: int8 2+ ~
    is_renew_ack: bool 2+
    topics: []
      topic_id: uuid
      partitions: []
        partition_index: int32
        acknowledgement_batches: []
          first_offset: int64, last_offset: int64, acknowledge_types: []int8
    forgotten_topics_data: []
      topic_id: uuid, partitions: []int32
  response
    throttle_time_ms: int32, error_code: int16, error_message: string? = null, acquisition_lock_timeout_ms: int32 1+
    responses: []
      topic_id: uuid
      partitions: []
        partition_index: int32, error_code: int16, error_message: string? = null, acknowledge_error_code: int16
        acknowledge_error_message: string? = null
        current_leader: {}
          leader_id: int32, leader_epoch: int32
        records: records?0
        acquired_records: []
          first_offset: int64, last_offset: int64, delivery_count: int16
    node_endpoints: []
      node_id: int32, host: string, port: int32, rack: string? = null

ShareAcknowledge
  request
    group_id: string? = null, member_id: string?, share_session_epoch: int32, is_renew_ack: bool 2+
    topics: []
      topic_id: uuid
      partitions: []
        partition_index: int32
        acknowledgement_batches: []
          first_offset: int64, last_offset: int64, acknowledge_types: []int8
  response
    throttle_time_ms: int32, error_code: int16, error_message: string? = null, acquisition_lock_timeout_ms: int32 2+ ~
    responses: []
      topic_id: uuid
      partitions: []
        partition_index: int32, error_code: int16, error_message: string? = null
        current_leader: {}
          leader_id: int32, leader_epoch: int32
    node_endpoints: []
      node_id: int32, host: string, port: int32, rack: string? = null

InitializeShareGroupState
  request
    group_id: string
    topics: []
      topic_id: uuid
      partitions: []
        partition: int32, state_epoch: int32, start_offset: int64
  response
    results: []
      topic_id: uuid
      partitions: []
        partition: int32, error_code: int16, error_message: string? = null

ReadShareGroupState
  request
    group_id: string
    topics: []
      topic_id: uuid
      partitions: []
        partition: int32, leader_epoch: int32
  response
    results: []
      topic_id: uuid
      partitions: []
        partition: int32, error_code: int16, error_message: string? = null, state_epoch: int32, start_offset: int64
        state_batches: []
          first_offset: int64, last_offset: int64, delivery_state: int8, delivery_count: int16

WriteShareGroupState
  request
    group_id: string
    topics: []
      topic_id: uuid
      partitions: []
        partition: int32, state_epoch: int32, leader_epoch: int32, start_offset: int64
        delivery_complete_count: int32 1+ = -1 ~
        state_batches: []
          first_offset: int64, last_offset: int64, delivery_state: int8, delivery_count: int16
  response
    results: []
      topic_id: uuid
      partitions: []
        partition: int32, error_code: int16, error_message: string? = null

DeleteShareGroupState
  request
    group_id: string
    topics: []
      topic_id: uuid
      partitions: []
        partition: int32
  response
    results: []
      topic_id: uuid
      partitions: []
        partition: int32, error_code: int16, error_message: string? = null

ReadShareGroupStateSummary
  request
    group_id: string
    topics: []
      topic_id: uuid
      partitions: []
        partition: int32, leader_epoch: int32
  response
    results: []
      topic_id: uuid
      partitions: []
        partition: int32, error_code: int16, error_message: string? = null, state_epoch: int32, leader_epoch: int32
        start_offset: int64, delivery_complete_count: int32 1+ = -1 ~

DescribeShareGroupOffsets
  request
    groups: []
      group_id: string
      topics: []?
        topic_name: string, partitions: []int32
  response
    throttle_time_ms: int32
    groups: []
      group_id: string
      topics: []
        topic_name: string, topic_id: uuid
        partitions: []
          partition_index: int32, start_offset: int64, leader_epoch: int32, lag: int64 1+ = -1 ~, error_code: int16
          error_message: string? = null
      error_code: int16, error_message: string? = null

AlterShareGroupOffsets
  request
    group_id: string
    topics: []
      topic_name: string
      partitions: []
        partition_index: int32, start_offset: int64
  response
    throttle_time_ms: int32, error_code: int16, error_message: string? = null
    responses: []
      topic_name: string, topic_id: uuid
      partitions: []
        partition_index: int32, error_code: int16, error_message: string? = null

DeleteShareGroupOffsets
  request
    group_id: string
    topics: []
      topic_name: string
  response
    throttle_time_ms: int32, error_code: int16, error_message: string? = null
    responses: []
      topic_name: string, topic_id: uuid, error_code: int16, error_message: string? = null
"""

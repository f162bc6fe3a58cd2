"""Topics and their partitions: create, delete, grow, move, describe.

The notation is explained in `protocol/schema.py`.
"""

TABLE = """
CreateTopics
  request
    topics: []
      name: string, num_partitions: int32, replication_factor: int16
      assignments: []
        partition_index: int32, broker_ids: []int32
      configs: []
        name: string, value: string?
    timeout_ms: int32 = 60000, validate_only: bool 1+
  response
    throttle_time_ms: int32 2+ ~
    topics: []
      name: string, topic_id: uuid 7+ ~, error_code: int16, error_message: string? 1+ ~
      topic_config_error_code: int16 5+ #0 ~, num_partitions: int32 5+ = -1 ~, replication_factor: int16 5+ = -1 ~
      configs: []? 5+ ~
        name: string, value: string?, read_only: bool, config_source: int8 = -1, is_sensitive: bool

DeleteTopics
  request
    topics: [] 6+
      name: string? = null, topic_id: uuid
    topic_names: []string 0-5 ~, timeout_ms: int32
  response
    throttle_time_ms: int32 1+ ~
    responses: []
      name: string?6+, topic_id: uuid 6+ ~, error_code: int16, error_message: string? 5+ = null ~

DeleteRecords
  request
    topics: []
      name: string
      partitions: []
        partition_index: int32, offset: int64
    timeout_ms: int32
  response
    throttle_time_ms: int32
    topics: []
      name: string
      partitions: []
        partition_index: int32, low_watermark: int64, error_code: int16

AlterReplicaLogDirs
  request
    dirs: []
      path: string
      topics: []
        name: string, partitions: []int32
  response
    throttle_time_ms: int32
    results: []
      topic_name: string
      partitions: []
        partition_index: int32, error_code: int16

DescribeLogDirs
  request
    topics: []?
      topic: string, partitions: []int32
  response
    throttle_time_ms: int32, error_code: int16 3+ ~
    results: []
      error_code: int16, log_dir: string
      topics: []
        name: string
        partitions: []
          partition_index: int32, partition_size: int64, offset_lag: int64, is_future_key: bool
      total_bytes: int64 4+ = -1 ~, usable_bytes: int64 4+ = -1 ~, is_cordoned: bool 5+ ~

CreatePartitions
  request
    topics: []
      name: string, count: int32
      assignments: []?
        broker_ids: []int32
    timeout_ms: int32, validate_only: bool
  response
    throttle_time_ms: int32
    results: []
      name: string, error_code: int16, error_message: string? = null

ElectLeaders
  request
    election_type: int8 1+
    topic_partitions: []?
      topic: string, partitions: []int32
    timeout_ms: int32 = 60000
  response
    throttle_time_ms: int32, error_code: int16 1+
    replica_election_results: []
      topic: string
      partition_result: []
        partition_id: int32, error_code: int16, error_message: string?

AlterPartitionReassignments
  request
    timeout_ms: int32 = 60000, allow_replication_factor_change: bool 1+ = true
    topics: []
      name: string
      partitions: []
        partition_index: int32, replicas: []int32? = null
  response
    throttle_time_ms: int32, allow_replication_factor_change: bool 1+ = true ~, error_code: int16
    error_message: string?
    responses: []
      name: string
      partitions: []
        partition_index: int32, error_code: int16, error_message: string?

ListPartitionReassignments
  request
    timeout_ms: int32 = 60000
    topics: []? = null
      name: string, partition_indexes: []int32
  response
    throttle_time_ms: int32, error_code: int16, error_message: string?
    topics: []
      name: string
      partitions: []
        partition_index: int32, replicas: []int32, adding_replicas: []int32, removing_replicas: []int32

DescribeTopicPartitions
  request
    topics: []
      name: string
    response_partition_limit: int32 = 2000
    cursor: {}? = null
      topic_name: string, partition_index: int32
  response
    throttle_time_ms: int32
    topics: []
      error_code: int16, name: string?, topic_id: uuid, is_internal: bool
      partitions: []
        error_code: int16, partition_index: int32, leader_id: int32, leader_epoch: int32 = -1, replica_nodes: []int32
        isr_nodes: []int32, eligible_leader_replicas: []int32? = null, last_known_elr: []int32? = null
        offline_replicas: []int32
      topic_authorized_operations: int32 = -2147483648
    next_cursor: {}? = null
      topic_name: string, partition_index: int32
"""

"""What brokers say to each other in a cluster that keeps its state in ZooKeeper.

The notation is explained in `protocol/schema.py`.
"""

TABLE = """
LeaderAndIsr
  request
    controller_id: int32, is_kraft_controller: bool 7+, controller_epoch: int32, broker_epoch: int64 2+ = -1 ~
    type: int8 5+
    ungrouped_partition_states: [] 0-1
      topic_name: string, partition_index: int32, controller_epoch: int32, leader: int32, leader_epoch: int32
      isr: []int32, partition_epoch: int32, replicas: []int32, is_new: bool 1+ ~
    topic_states: [] 2+
      topic_name: string, topic_id: uuid 5+ ~
      partition_states: []
        partition_index: int32, controller_epoch: int32, leader: int32, leader_epoch: int32, isr: []int32
        partition_epoch: int32, replicas: []int32, adding_replicas: []int32 3+ ~, removing_replicas: []int32 3+ ~
        is_new: bool, leader_recovery_state: int8 6+
    live_leaders: []
      broker_id: int32, host_name: string, port: int32
  response
    error_code: int16
    partition_errors: [] 0-4
      topic_name: string, partition_index: int32, error_code: int16
    topics: [] 5+
      topic_id: uuid
      partition_errors: []
        partition_index: int32, error_code: int16

StopReplica
  request
    controller_id: int32, is_kraft_controller: bool 4+, controller_epoch: int32, broker_epoch: int64 1+ = -1 ~
    delete_partitions: bool 0-2
    ungrouped_partitions: [] 0
      topic_name: string, partition_index: int32
    topics: [] 1-2
      name: string, partition_indexes: []int32
    topic_states: [] 3+
      topic_name: string
      partition_states: []
        partition_index: int32, leader_epoch: int32 = -1, delete_partition: bool
  response
    error_code: int16
    partition_errors: []
      topic_name: string, partition_index: int32, error_code: int16

UpdateMetadata
  request
    controller_id: int32, is_kraft_controller: bool 8+, type: int8 8+ #0, controller_epoch: int32
    broker_epoch: int64 5+ = -1 ~
    ungrouped_partition_states: [] 0-4
      topic_name: string, partition_index: int32, controller_epoch: int32, leader: int32, leader_epoch: int32
      isr: []int32, zk_version: int32, replicas: []int32, offline_replicas: []int32 4+ ~
    topic_states: [] 5+
      topic_name: string, topic_id: uuid 7+ ~
      partition_states: []
        partition_index: int32, controller_epoch: int32, leader: int32, leader_epoch: int32, isr: []int32
        zk_version: int32, replicas: []int32, offline_replicas: []int32
    live_brokers: []
      id: int32, v0_host: string 0 ~, v0_port: int32 0 ~
      endpoints: [] 1+ ~
        port: int32, host: string, listener: string 3+ ~, security_protocol: int16
      rack: string? 2+ ~
  response
    error_code: int16

ControlledShutdown
  request
    broker_id: int32, broker_epoch: int64 2+ = -1 ~
  response
    error_code: int16
    remaining_partitions: []
      topic_name: string, partition_index: int32

AlterPartition
  request
    broker_id: int32, broker_epoch: int64 = -1
    topics: []
      topic_name: string 0-1 ~, topic_id: uuid 2+ ~
      partitions: []
        partition_index: int32, leader_epoch: int32, new_isr: []int32 0-2
        new_isr_with_epochs: [] 3+
          broker_id: int32, broker_epoch: int64 = -1
        leader_recovery_state: int8 1+, partition_epoch: int32
  response
    throttle_time_ms: int32, error_code: int16
    topics: []
      topic_name: string 0-1 ~, topic_id: uuid 2+ ~
      partitions: []
        partition_index: int32, error_code: int16, leader_id: int32, leader_epoch: int32, isr: []int32
        leader_recovery_state: int8 1+ ~, partition_epoch: int32

Envelope
  request
    request_data: bytes, request_principal: bytes?, client_host_address: bytes
  response
    response_data: bytes? = null, error_code: int16
"""

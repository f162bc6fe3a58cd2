"""What `milepost cluster status` shows: the processes that were started here, and the cluster as its znodes tell it."""

from __future__ import annotations

import json
from typing import Any

from milepost.cli.terminal.columns import write_columns
from milepost.cli.terminal.output import line_writer
from milepost.cluster.local.cluster import LocalCluster
from milepost.cluster.overview import Overview, PartitionSeen, overview
from milepost.cluster.zookeeper.reader import ZooKeeperReader


def show(cluster: LocalCluster, internal: bool, only_under_replicated: bool, as_json: bool) -> bool:
    """Whether all is well: every broker runs and is registered, there is a controller, and every replica is in sync."""
    zookeeper = cluster.record.zookeeper
    if zookeeper.is_own and (zookeeper.process is None or not zookeeper.process.is_running):
        stopped = Overview(None, None, None, {}, ())
        show_json(cluster, stopped, []) if as_json else show_text(cluster, stopped, [])
        return False
    with ZooKeeperReader(zookeeper.connect) as reader:
        seen = overview(reader)
    chosen = [part for part in seen.partitions if internal or not part.topic.startswith("__")]
    if only_under_replicated:
        chosen = seen.under_replicated
    show_json(cluster, seen, chosen) if as_json else show_text(cluster, seen, chosen)
    all_here = all(broker.is_running and number in seen.brokers for number, broker in cluster.record.brokers.items())
    return all_here and seen.controller is not None and not seen.under_replicated


def brokers(cluster: LocalCluster, seen: Overview) -> list[dict[str, Any]]:
    """Those that were started here, and others that are registered in the same ZooKeeper."""
    rows = []
    for number in sorted(cluster.record.brokers.keys() | seen.brokers.keys()):
        own, registered = cluster.record.brokers.get(number), seen.brokers.get(number)
        if own is None:
            state = "elsewhere"
        elif own.is_running:
            state = "running" if registered else "not registered"
        else:
            state = own.ending if registered is None else f"{own.ending}, still registered"
        rows.append(
            {
                "broker": number,
                "state": state,
                "address": own.address if own else ", ".join(registered.endpoints if registered else ()),
                "pid": own.process.pid if own and own.process and own.is_running else None,
                "epoch": registered.epoch if registered else None,
                "leads": sum(part.leader == number for part in seen.partitions),
                "replicas": sum(number in part.replicas for part in seen.partitions),
            }
        )
    return rows


def show_json(cluster: LocalCluster, seen: Overview, chosen: list[PartitionSeen]) -> None:
    content = {
        "data": cluster.directory,
        "zookeeper": cluster.record.zookeeper.connect,
        "bootstrap_servers": cluster.bootstrap_servers,
        "cluster_id": seen.cluster_id,
        "controller": seen.controller,
        "controller_epoch": seen.controller_epoch,
        "brokers": brokers(cluster, seen),
        "under_replicated": len(seen.under_replicated),
        "offline": len(seen.offline),
        "partitions": [
            {
                "topic": part.topic,
                "partition": part.partition,
                "leader": part.leader,
                "leader_epoch": part.leader_epoch,
                "isr": part.isr,
                "replicas": part.replicas,
                "is_under_replicated": part.is_under_replicated,
                "is_reassigned": part.is_reassigned,
            }
            for part in chosen
        ],
    }
    line_writer()(json.dumps(content))


def show_text(cluster: LocalCluster, seen: Overview, chosen: list[PartitionSeen]) -> None:
    write = line_writer()
    own = cluster.record.zookeeper.process
    pid = f", pid {own.pid}" if own is not None and own.is_running else ", stopped" if cluster.record.zookeeper.is_own else ""
    write(f"ZooKeeper        {cluster.record.zookeeper.connect}{pid}")
    write(f"cluster id       {seen.cluster_id or '-'}")
    write(f"controller       {'none' if seen.controller is None else f'broker {seen.controller}, epoch {seen.controller_epoch}'}")
    write(f"for a client     bootstrap.servers={cluster.bootstrap_servers}")
    write(
        f"partitions       {len(seen.partitions)}, {len(seen.under_replicated)} under-replicated, {len(seen.offline)} without a leader"
    )
    write("")
    rows = brokers(cluster, seen)
    write_columns(write, tuple(rows[0]), [tuple(row.values()) for row in rows])
    if chosen:
        write("")
        heads = ("topic", "partition", "leader", "leader epoch", "isr", "replicas", "")
        write_columns(write, heads, [row_of(part) for part in chosen])


def row_of(part: PartitionSeen) -> tuple[object, ...]:
    remark = "no leader" if part.is_offline else "under-replicated" if part.is_under_replicated else ""
    if part.is_reassigned:
        remark = f"{remark}, reassigned".removeprefix(", ")
    leader = None if part.is_offline else part.leader
    return (part.topic, part.partition, leader, part.leader_epoch, listed(part.isr), listed(part.replicas), remark)


def listed(numbers: tuple[int, ...]) -> str:
    return ",".join(map(str, numbers)) or "-"

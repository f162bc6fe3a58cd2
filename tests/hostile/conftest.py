"""Hostile input to a broker without authentication, one test for each row of the project's list of attacks.

    N-01  frame size negative                          test_frames::test_size_out_of_bounds
    N-02  frame size 0                                 test_frames::test_size_out_of_bounds
    N-03  frame size over the limit                    test_frames::test_size_out_of_bounds
    N-04  100 MiB announced, 4 bytes sent              test_connections::test_thousand_peers_that_announce_a_lot_and_send_nothing
    N-05  header short, client id wrong                test_frames::test_header_that_is_none, test_client_id_in_the_log
    N-06  unknown api key                              test_frames::test_every_unknown_key
    N-07  known key, bad version                       test_frames::test_every_key_in_versions_that_are_not_served
    N-08  tagged fields by the million                 test_bodies::test_tagged_fields
    N-09  array counts                                 test_bodies::test_arrays_that_announce_more_than_there_is
    N-10  negative counts, null where not allowed      test_bodies::test_counts_and_nulls_that_are_not_allowed
    N-11  varint of more than 5 bytes                  test_bodies::test_varint_without_end
    N-12  bits above 32 in a varint                    test_bodies::test_varint_with_bits_above_32
    N-13  bytes behind the body                        test_bodies::test_bytes_behind_the_body
    N-14  repeats and empty lists                      test_bodies::test_every_api_with_empty_lists, test_every_api_with_repeats
    N-15  pipelining without reading                   test_connections::test_peer_that_never_reads
    N-16  slow loris                                   test_connections::test_peers_that_send_a_byte_at_a_time, test_frame_deadline
    N-17  half-open peer                               test_connections::test_half_open_peer, test_peers_that_reset
    N-18  connection flood, out of descriptors         test_floods
    N-19  request flood                                test_floods::test_request_flood
    N-20  TLS, HTTP, SSH on the port                   test_frames::test_other_protocols
    N-21  plaintext on a TLS port                      there are no TLS listeners yet
    N-22  TLS garbage                                  there are no TLS listeners yet
    N-23  acks other than -1, 0, 1                     test_records::test_acks
    N-24  magic 0, 1, 3; no batch or two               test_records::test_not_one_batch_of_magic_2
    N-25  checksum wrong                               test_records::test_every_byte_flipped
    N-26  batch length wrong                           test_records::test_batch_length
    N-27  record count wrong                           test_records::test_record_count
    N-28  base offset not 0                            test_records::test_base_offset
    N-29  control bit                                  test_records::test_control_batch
    N-30  producer without sequence, transaction bits  test_records::test_producer_fields_that_do_not_fit
    N-31  codec 5 to 7, reserved bits                  test_records::test_codec_that_does_not_exist
    N-32  decompression bomb                           test_records::test_decompression_bomb
    N-33  codec oddities                               test_records::test_payload_that_is_not_what_its_codec_says
    N-34  record bodies                                test_records::test_record_bodies
    N-35  null key to a compacted topic                test_records::test_null_key_to_a_compacted_topic
    N-36  topic names                                  test_requests::test_names_that_are_no_topic
    N-37  CreateTopics absurd                          test_requests::test_topics_that_cannot_be
    N-38  Fetch absurd                                 test_requests::test_fetches_that_cannot_be, test_sessions_without_end
    N-39  inter-broker requests from clients           test_inter_broker
    N-40  groups absurd                                test_requests::test_groups_that_cannot_be
    N-41  SASL                                         there is no authentication yet; 17 and 36 are unknown keys (N-06)
    N-42  SCRAM                                        there is no authentication yet
    N-43  a broker that sends nonsense to our client   tests/client and tests/protocol/test_connection
    N-44  nonsense in ZooKeeper                        tests/cluster
    N-45  OAuth half configured                        there is no authentication yet

The broker is a process of its own, once for all tests and modes of a run; see `besieged` for what is judged after each test.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.hostile.besieged import Besieged

SETTINGS: dict[str, dict[str, str]] = {"inline": {}, "pooled": {"request_channel_mode": "pooled"}}


class Processes:
    def __init__(self, factory: pytest.TempPathFactory):
        self._factory = factory
        self._running: dict[str, Besieged] = {}

    def in_mode(self, mode: str) -> Besieged:
        if mode not in self._running:
            self._running[mode] = Besieged(self._factory.mktemp("hostile") / mode, **SETTINGS[mode])
        return self._running[mode]

    def end(self) -> None:
        """All of them, also when one does not end well."""
        with ExitStack() as stack:
            for process in self._running.values():
                stack.callback(process.end)


@pytest.fixture(scope="session")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    processes = Processes(tmp_path_factory)
    yield processes
    processes.end()


@pytest.fixture
def broker(request: pytest.FixtureRequest, processes: Processes) -> Iterator[Besieged]:
    """The broker in inline mode; with `both_modes` in each."""
    besieged = processes.in_mode(getattr(request, "param", "inline"))
    before, rounds = besieged.measure(), besieged.healthy.rounds
    yield besieged
    besieged.judge(before, rounds)

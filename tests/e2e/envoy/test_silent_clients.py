"""Envoy disconnects clients that neither answer nor read, so that they hold no resources."""

import socket
from typing import Any

import grpc

from runner.proxy.envoy_config import connection_manager
from tests.e2e.connections import SlowUpstream, connections, envoy_with, is_closed, large_answers
from tests.e2e.envoy.http2 import CHAT, NO_WINDOW, PREFACE, begun_calls, wait_for_headers
from tests.e2e.envoy_process import EnvoyProcess
from tests.e2e.stack import Stack
from tests.waiting import GUARD_S

# GET http://a/v1/models on the first stream.
GET_MODELS = b"\x82\x86\x04\x0a/v1/models\x41\x01a"
GET_MODELS_FRAME = b"\0\0" + bytes([len(GET_MODELS)]) + b"\x01\x05\0\0\0\x01" + GET_MODELS
RST_STREAM = 3


def test_peer_that_does_not_answer_pings_is_disconnected(stack: Stack) -> None:
    """A half-open HTTP/2 connection is closed."""

    def change(config: dict[str, Any]) -> None:
        connection_manager(config)["http2_protocol_options"]["connection_keepalive"] = {
            "interval": "0.2s",
            "timeout": "0.3s",
        }

    with envoy_with(stack, change) as envoy, connections(envoy, 1, PREFACE) as (connection,):
        assert is_closed(connection)
        assert envoy.stat("http2.keepalive_timeout") == 1


def test_a_client_that_stops_reading_is_disconnected(stack: Stack) -> None:
    """Envoy closes the connection of a client that does not read its response."""

    def change(config: dict[str, Any]) -> None:
        config["static_resources"]["listeners"][0]["per_connection_buffer_high_watermark_timeout"] = "1s"

    with SlowUpstream("/v1/slow") as upstream, EnvoyProcess(upstream.port, stack.ports["service"], change) as envoy:
        request = b"GET /v1/large HTTP/1.1\r\nhost: localhost\r\n\r\n"
        with connections(envoy, 1, request) as (connection,):
            envoy.until(lambda: envoy.stat("http.front_door.downstream_rq_total") > 0)
            envoy.until(lambda: envoy.stat("http.front_door.downstream_rq_active") == 0)
            assert is_closed(connection)


def test_a_stream_without_a_window_is_reset(stack: Stack) -> None:
    """A response for which the HTTP/2 client opens no window is reset, and its connection continues."""

    def change(config: dict[str, Any]) -> None:
        assert connection_manager(config)["stream_flush_timeout"] == "60s"
        connection_manager(config)["stream_flush_timeout"] = "1s"

    with envoy_with(stack, change) as envoy, connections(envoy, 1, NO_WINDOW + GET_MODELS_FRAME) as (connection,):
        connection.settimeout(GUARD_S)
        kinds = []
        while RST_STREAM not in kinds:
            head = connection.recv(9, socket.MSG_WAITALL)
            connection.recv(int.from_bytes(head[:3], "big"), socket.MSG_WAITALL)
            kinds.append(head[3])
        assert envoy.stat("http2.tx_flush_timeout") == 1
        envoy.until(lambda: envoy.stat("http.front_door.downstream_rq_active") == 0)


def test_answers_that_are_not_read_block_no_calls_of_other_clients(stack: Stack) -> None:
    """They leave room in the window of the connection that all calls to a service share.

    Here they have 64 MiB, more than Envoy's default for a connection, and are not reset.
    """

    def change(config: dict[str, Any]) -> None:
        connection_manager(config)["stream_flush_timeout"] = "3600s"

    unread = begun_calls(64, CHAT, b"", preface=NO_WINDOW)
    with (
        large_answers(64) as port,
        EnvoyProcess(stack.ports["gateway"], port, change) as envoy,
        connections(envoy, 1, unread) as (connection,),
    ):
        wait_for_headers(connection, 64)
        with grpc.insecure_channel(envoy.target) as channel:
            call: Any = channel.unary_unary("/sluice.v1.ChatService/Chat")
            assert call(b"", timeout=GUARD_S) == b""

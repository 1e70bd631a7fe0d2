"""The attacks find what a careless server lets through, and reach no server but one of this machine."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from conformance.__main__ import main
from conformance.attacks.memory import Growth, family, listener
from conformance.attacks.raid import ATTACKS
from conformance.attacks.wire.hpack import Decoder, encoded, integer, literal
from conformance.attacks.wire.http1 import parsed_responses
from tests.conformance.careless import Careless
from tests.waiting import GUARD_S

KINDS = {"ssrf", "smuggling", "names", "headers"}
SLOW = {"headers.endless", "ssrf.mapped"}  # waits for its timeout; depends on the machine's IPv6
WITHSTOOD = {  # what not even a careless server gets wrong
    *(f"ssrf.{name}" for name in ("bytes", "case", "ftp", "gopher", "userinfo")),
    "smuggling.upgrade",
    *(f"headers.{name}" for name in ("bytes", "hop", "malformed", "override", "request_id", "split")),
}


def test_attacks_are_many_and_have_different_ids() -> None:
    ids = [attack.id for attack in ATTACKS]
    assert len(ids) >= 200
    assert len(set(ids)) == len(ids)


@pytest.mark.slow
def test_attacks_find_what_a_careless_server_lets_through(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nearly every attack by URLs, framing, heads and names succeeds, and the report says with what."""
    path = tmp_path / "report.json"
    ids = [each.id for each in ATTACKS if each.id.partition(".")[0] in KINDS and each.id not in SLOW]
    with Careless() as server:
        code = main(["--url", server.url, "--attack", "--json", str(path), "--timeout-s", str(GUARD_S), "--only", *ids])
    assert code == 1, capsys.readouterr().out
    report = json.loads(path.read_text())
    assert {each["id"] for each in report["findings"] if each["result"] != "failed"} == WITHSTOOD
    assert all(each["seen"] for each in report["findings"])


@pytest.mark.parametrize("url", ["http://192.0.2.1:80", "https://127.0.0.1", "http://example.invalid"])
def test_only_servers_of_this_machine_are_attacked(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Any other address ends the command with 2 before anything is sent."""
    assert main(["--url", url, "--attack"]) == 2
    assert url in capsys.readouterr().err


def test_either_a_dialect_or_an_attack_is_required(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--url", "http://127.0.0.1:1"])
    assert "--attack" in capsys.readouterr().err
    assert main(["--url", "http://127.0.0.1:1", "--attack"]) == 2


def test_headers_are_decoded_with_the_dynamic_table() -> None:
    """Huffman's codes are those of RFC 7541, C.4.1, and an indexed header is found again by its number."""
    decoder = Decoder()
    name = bytes.fromhex("8cf1e3c2e5f23a6ba0ab90f4ff")
    assert decoder.headers(b"\x40" + name + b"\x0212") == [("www.example.com", "12")]
    assert decoder.headers(literal("grpc-status", "0", is_indexed=True)) == [("grpc-status", "0")]
    assert decoder.headers(b"\xbe\xbf\x88") == [("grpc-status", "0"), ("www.example.com", "12"), (":status", "200")]
    assert decoder.headers(encoded([("a", "b" * 300)])) == [("a", "b" * 300)]
    assert integer(1337, 5) == bytes([31, 154, 10])  # RFC 7541, C.1.2


def test_responses_are_parsed_as_they_are_framed() -> None:
    """Interim responses have no body, chunks are joined, and an incomplete response is none."""
    interim, chunked = b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    sized = b"HTTP/1.1 400 Bad\r\nContent-Length: 2\r\n\r\nab"
    found = parsed_responses(interim + chunked + b"2\r\nab\r\n1;x\r\nc\r\n0\r\n\r\n" + sized, is_closed=False)
    assert [(each.status, each.body) for each in found] == [(100, b""), (200, b"abc"), (400, b"ab")]
    assert parsed_responses(sized[:-1], is_closed=True) == []
    assert len(parsed_responses(b"HTTP/1.0 200 OK\r\n\r\nabc", is_closed=True)) == 1


def test_memory_of_a_server_is_measured_with_its_children() -> None:
    with Growth(os.getpid()) as growth:
        held = b"\1" * (64 * 2**20)
    assert growth.mib >= 32, len(held)
    assert os.getpid() in family(os.getppid())


def test_server_is_found_by_its_port() -> None:
    with Careless() as server:
        assert listener(int(server.url.rpartition(":")[2])) == os.getpid()

"""VllmEngine's descriptions on a real server: health, model, load and tokenizer, and the choice of the model."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import grpc
from grpc import aio
from sluice.vllm import engine_pb2, engine_pb2_grpc

from service.contract.vllm.descriptions import loads_message, tokenizer_chunks
from service.generation.stats import EngineStats
from service.observability.health import ServingPhase
from service.registry.model_files import ModelFiles, TokenFacts
from tests.engine.fakes import until
from tests.service.auth.key_files import write
from tests.service.encoder_fakes import ENCODER, embed, running_encoder
from tests.service.endpoint_fakes import serving
from tests.service.fakes import MODEL, ScriptedRunner, rejection_of, running
from tests.service.interceptors.guarded import bearing


def files_of(folder: Path, **files: Any) -> ModelFiles:
    """Return the files of a folder; each is given by its name without `.json`."""
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return ModelFiles(folder)


async def test_health_follows_the_server_and_needs_models() -> None:
    """While models are being loaded the call fails, so that a router waits; a server that leaves is not healthy."""
    async with running(is_loaded=False) as run:
        stub: Any = engine_pb2_grpc.VllmEngineStub(run.channel)
        rejection = await rejection_of(stub.HealthCheck(engine_pb2.HealthCheckRequest()))
        assert rejection.code is grpc.StatusCode.UNAVAILABLE
    async with running() as run:
        stub = engine_pb2_grpc.VllmEngineStub(run.channel)
        assert (await stub.HealthCheck(engine_pb2.HealthCheckRequest())).healthy
        assert await run.status("vllm.grpc.engine.VllmEngine") == "SERVING"
        await run.server.health.enter(ServingPhase.LEAVING)
        left = await stub.HealthCheck(engine_pb2.HealthCheckRequest())
        info = await stub.GetServerInfo(engine_pb2.GetServerInfoRequest())
    assert (left.healthy, left.message) == (False, "leaving")
    assert info.is_paused


async def test_model_and_load_are_described() -> None:
    """The model has its name, limits and tokens; the load is that of one rank."""
    async with running(ScriptedRunner("endless ", end=False)) as run:
        stub: Any = engine_pb2_grpc.VllmEngineStub(run.channel)
        model = await stub.GetModelInfo(engine_pb2.GetModelInfoRequest())
        with run.runner.paused(after=1):
            prompt = {"input_ids": [97]}
            call = stub.Generate(engine_pb2.GenerateRequest(tokenized=prompt, stream=True))
            await until(lambda: run.engine.stats().num_running == 1)
            server = await stub.GetServerInfo(engine_pb2.GetServerInfoRequest())
            (load,) = (await stub.GetLoads(engine_pb2.GetLoadsRequest())).loads
            other = await stub.GetLoads(engine_pb2.GetLoadsRequest(dp_rank=1))
            call.cancel()
    assert (model.served_model_name, model.is_generation, model.max_context_length) == (MODEL, True, 128)
    assert (server.server_type, server.active_requests, server.is_paused) == ("sluice", 1, False)
    assert (load.num_running_reqs, load.num_total_reqs) == (1, 1)
    assert load.max_running_requests == server.max_num_seqs > 0
    assert not other.loads


async def test_only_model_of_its_kind_needs_no_name() -> None:
    """Of an encoder and a generator each RPC uses the one that it can; embeddings are those of EmbeddingService."""
    async with running_encoder(model={ENCODER: "nowhere", MODEL: "nowhere"}) as run:
        stub, ids = run.vllm, list(b"abc")
        vector = await stub.Embed(engine_pb2.EmbedRequest(tokenized={"input_ids": ids}))
        known = await run.embeddings.Embed(embed(inputs=[{"token_ids": {"ids": ids}}]))
        generator = await stub.GetModelInfo(engine_pb2.GetModelInfoRequest())
        named = await stub.GetModelInfo(engine_pb2.GetModelInfoRequest(), metadata=[("x-sluice-model", ENCODER)])
        missing = await rejection_of(stub.Embed(engine_pb2.EmbedRequest()))
    assert list(vector.embedding) == list(known.embeddings[0].values)
    assert (vector.embedding_dim, vector.prompt_tokens) == (len(vector.embedding), known.usage.prompt_tokens)
    assert (generator.served_model_name, named.served_model_name) == (MODEL, ENCODER)
    assert (generator.is_generation, named.is_generation) == (True, False)
    assert [field for field, _ in missing.fields] == ["tokenized.input_ids"]


async def test_one_of_several_models_must_be_named() -> None:
    """The error has the names to choose from; the metadata names the model."""
    async with serving("first", "second") as run, aio.insecure_channel(f"127.0.0.1:{run.port}") as channel:
        stub: Any = engine_pb2_grpc.VllmEngineStub(channel)
        request = engine_pb2.GenerateRequest(tokenized={"input_ids": [97]})
        rejection = await rejection_of(stub.Generate(request))
        assert [field for field, _ in rejection.fields] == ["x-sluice-model"]
        assert "first, second" in rejection.text
        unknown = await rejection_of(stub.Generate(request, metadata=[("x-sluice-model", "nobody")]))
        assert unknown.code is grpc.StatusCode.NOT_FOUND
        messages = [each async for each in stub.Generate(request, metadata=[("x-sluice-model", "second")])]
    assert bytes(messages[-1].complete.output_ids[:-1]) == b"second"


async def test_model_of_another_key_is_like_none(tmp_path: Path) -> None:
    """A key that may use one of several models needs no name; a hidden name is rejected like an unknown one."""
    keys = write(tmp_path / "keys.yaml", team={"scopes": ["generate", "embed"], "models": ["seen1"]})
    auth = {"keys_file": tmp_path / "keys.yaml"}
    async with serving("seen1", "hidn1", auth=auth) as run, aio.insecure_channel(f"127.0.0.1:{run.port}") as channel:
        stub: Any = engine_pb2_grpc.VllmEngineStub(channel)
        found = await stub.GetModelInfo(engine_pb2.GetModelInfoRequest(), metadata=bearing(keys["team"]))
        calls = {
            stub.Generate: engine_pb2.GenerateRequest(tokenized={"input_ids": [97]}),
            stub.Embed: engine_pb2.EmbedRequest(tokenized={"input_ids": [97]}),
            stub.GetModelInfo: engine_pb2.GetModelInfoRequest(),
            stub.GetServerInfo: engine_pb2.GetServerInfoRequest(),
            stub.GetTokenizer: engine_pb2.GetTokenizerRequest(),
        }
        for method, request in calls.items():
            errors = []
            for name in ("hidn1", "nobd1"):
                metadata = [*bearing(keys["team"]), ("x-sluice-model", name)]
                rejection = await rejection_of(method(request, metadata=metadata))
                assert rejection.code is grpc.StatusCode.NOT_FOUND
                errors.append(rejection.text.replace(name, "NAME"))
            assert errors[0] == errors[1]
    assert found.served_model_name == "seen1"


def test_archive_has_the_tokenizer_and_no_weights(tmp_path: Path) -> None:
    """Equal files give equal archives; the last piece has the digest of all of them."""
    files = files_of(tmp_path, tokenizer={"a": "b" * 9}, config={}, notes={})
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    (tmp_path / "chat_template.jinja").write_text("{{ messages }}")
    archive = files.tokenizer_archive()
    with zipfile.ZipFile(io.BytesIO(archive)) as found:
        assert sorted(found.namelist()) == ["chat_template.jinja", "config.json", "tokenizer.json"]
        assert json.loads(found.read("tokenizer.json")) == {"a": "b" * 9}
    assert ModelFiles(tmp_path).tokenizer_archive() == archive
    large = bytes(range(256)) * 1000
    chunks = list(tokenizer_chunks(large))
    assert b"".join(each.data for each in chunks) == large
    assert [each.sha256 for each in chunks] == [""] * (len(chunks) - 1) + [hashlib.sha256(large).hexdigest()]
    assert len(chunks) > 1


def test_token_facts_are_read_from_the_configuration(tmp_path: Path) -> None:
    """generation_config.json precedes config.json; a folder without them has no facts."""
    assert ModelFiles(tmp_path).token_facts() == TokenFacts()
    config = {"model_type": "qwen3", "eos_token_id": 5, "text_config": {"bos_token_id": 1, "pad_token_id": None}}
    files = files_of(tmp_path, config=config)
    assert files.token_facts() == TokenFacts("qwen3", (5,), 0, 1)
    files_of(tmp_path, generation_config={"eos_token_id": [7, 8]})
    assert files.token_facts().eos_token_ids == (7, 8)


def test_throughput_is_estimated_from_the_last_steps() -> None:
    """Three sequences whose step takes 0.1 s and 0.05 s for each further one generate 15 tokens per second."""
    stats = EngineStats(num_running=3, decode_step_s=0.1, decode_row_s=0.05, num_blocks=8, num_free_blocks=6)
    (load,) = loads_message(stats, None).loads
    assert round(load.gen_throughput, 6) == 15
    assert load.token_usage == 0.25

"""SMG's published stubs of vLLM's engine service."""

import hashlib
import io
import json
import zipfile
from typing import Any

import grpc
import httpx
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorSet
from smg_grpc_proto import vllm_engine_pb2 as engine
from smg_grpc_proto import vllm_engine_pb2_grpc as engine_grpc
from smg_grpc_proto.generated import common_pb2 as common

ENCODER = "all-minilm-l6-v2"
MODEL = "sluice-demo"


def stub_of(url: str) -> Any:
    """Return a stub for the server of that base URL."""
    return engine_grpc.VllmEngineStub(grpc.insecure_channel(url.removeprefix("http://")))


def published(name: str) -> Any:
    """Return the published message of that name."""
    return getattr(engine, name, None) or getattr(common, name)


def check_served_fields_are_those_of_the_published_protocol(url: str, _: str) -> None:
    """Each field that the server declares has the published number, type and label."""
    files = FileDescriptorSet.FromString(httpx.get(f"{url}/sluice.binpb", timeout=240).content).file
    (file,) = (each for each in files if each.package == "vllm.grpc.engine")
    num_fields = 0
    for message in file.message_type:
        known = DescriptorProto()
        published(message.name).DESCRIPTOR.CopyToProto(known)
        fields = {each.name: each for each in known.field}
        for field in message.field:
            other = fields[field.name]
            assert (field.number, field.type, field.label) == (other.number, other.type, other.label), field.name
            num_fields += 1
    assert num_fields > 100
    served = {method.name for service in file.service for method in service.method}
    missing = {each.name for each in engine.DESCRIPTOR.services_by_name["VllmEngine"].methods} - served
    assert missing == {"FlushCache", "StartProfile", "StopProfile"}


def check_tokens_are_generated(url: str, _: str) -> None:
    """Streamed and whole answers have the same tokens; text is tokenized by the server."""
    stub = stub_of(url)
    params = engine.SamplingParams(temperature=0.0, max_tokens=8, logprobs=2)
    found = []
    for stream in (True, False):
        request = engine.GenerateRequest(
            request_id="1", text="The capital of France is", stream=stream, sampling_params=params
        )
        messages = list(stub.Generate(request, timeout=240))
        end = messages[-1].complete
        tokens = [token for each in messages for token in (*each.chunk.token_ids, *each.complete.output_ids)]
        found.append((tokens, end.completion_tokens, end.prompt_tokens, end.finish_reason))
    assert found[0] == found[1]
    assert len(found[0][0]) == found[0][1] > 0


def check_model_and_tokenizer_are_described(url: str, _: str) -> None:
    """The archive has the tokenizer and the chat template, and the announced digest."""
    stub = stub_of(url)
    assert stub.HealthCheck(engine.HealthCheckRequest(), timeout=240).healthy
    info = stub.GetModelInfo(engine.GetModelInfoRequest(), timeout=240)
    assert (info.served_model_name, info.is_generation, info.model_type) == (MODEL, True, "qwen3")
    assert json.loads(info.default_sampling_params_json)["temperature"] > 0
    assert stub.GetServerInfo(engine.GetServerInfoRequest(), timeout=240).server_type == "sluice"
    assert len(stub.GetLoads(engine.GetLoadsRequest(), timeout=240).loads) == 1
    chunks = list(stub.GetTokenizer(common.GetTokenizerRequest(), timeout=240))
    data = b"".join(each.data for each in chunks)
    assert hashlib.sha256(data).hexdigest() == chunks[-1].sha256
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"} <= set(archive.namelist())


def check_abort_ends_a_request(url: str, _: str) -> None:
    """A request of another call ends with the reason `abort`; unknown ids are ignored."""
    stub = stub_of(url)
    params = engine.SamplingParams(max_tokens=1900, ignore_eos=True)
    call = stub.Generate(
        engine.GenerateRequest(request_id="long", text="Hello", stream=True, sampling_params=params), timeout=240
    )
    assert next(call).chunk.token_ids
    stub.Abort(engine.AbortRequest(request_ids=["nobody's", "long"]), timeout=240)
    assert list(call)[-1].complete.finish_reason == "abort"


def check_cache_events_have_the_prompt(url: str, _: str) -> None:
    """The blocks of a prompt are reported with its tokens, and again after a resumption from their number."""
    stub = stub_of(url)
    params = engine.SamplingParams(temperature=0.0, max_tokens=1)
    prompt = [(7 * index) % 400 + 5 for index in range(80)]

    def stored(start: int) -> tuple[int, list[int]]:
        call = stub.SubscribeKvEvents(common.SubscribeKvEventsRequest(start_sequence_number=start), timeout=240)
        if not start:
            state = next(call)
            assert state.events[0].WhichOneof("data") == "cleared"
            assert state.snapshot.index == 0
            for _ in range(state.snapshot.count - 1):
                state = next(call)
            tokenized = engine.TokenizedInput(input_ids=prompt)
            list(stub.Generate(engine.GenerateRequest(tokenized=tokenized, sampling_params=params), timeout=240))
        tokens: list[int] = []
        size, number = 1, 0
        while len(prompt) - 1 - len(tokens) >= size:
            batch = next(call)
            number = number or batch.sequence_number
            for event in batch.events:
                blocks = event.stored.blocks
                size = blocks[0].block_size
                assert event.stored.HasField("parent_block_hash") is bool(tokens)
                tokens += [token_id for each in blocks for token_id in each.token_ids]
        call.cancel()
        return number, tokens

    number, tokens = stored(0)
    assert tokens == prompt[: len(tokens)]
    assert len(tokens) >= len(prompt) // 2
    assert stored(number) == (number, tokens)


def check_embedding_and_errors(url: str, _: str) -> None:
    """The encoder embeds tokens, and wrong requests name their field."""
    stub = stub_of(url)
    prompt = engine.TokenizedInput(input_ids=[101, 2009, 102])
    vector = stub.Embed(engine.EmbedRequest(request_id="1", tokenized=prompt), timeout=240)
    assert len(vector.embedding) == vector.embedding_dim > 0
    wrong = engine.GenerateRequest(text="a", sampling_params=engine.SamplingParams(temperature=3.0))
    try:
        list(stub.Generate(wrong, timeout=240))
    except grpc.RpcError as error:
        call: Any = error
        assert call.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert call.details().startswith("sampling_params.temperature")
    else:
        raise AssertionError("no error")

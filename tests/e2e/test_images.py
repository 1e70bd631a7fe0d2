"""Images in chats, through the whole product: the answers are transformers' own, in every dialect and over gRPC."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from sluice.v1 import chat_pb2, chat_pb2_grpc, content_pb2, model_pb2, model_pb2_grpc

from tests.e2e.picture_server import PictureServer
from tests.e2e.stack import Stack
from tests.e2e.vision_product import NUM_TOKENS, data_url, file_of, reference, save_vision_folder
from tests.engine.vision_models import NUM_IMAGE_TOKENS, picture

CAT, DOG = picture(1), picture(2, (20, 90))
SAID: list[Any] = ["What is it? ", CAT, " and ", DOG]
AZURE = "/models/chat/completions?api-version=2024-05-01-preview"
THREAD = {"worker": "thread", "num_blocks": 64}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vision")
    save_vision_folder(folder)
    return folder


@pytest.fixture(scope="module")
def expected(folder: Path) -> tuple[list[int], list[int]]:
    """The prompt's tokens and the answer's, by transformers."""
    return reference(folder, *SAID)


@pytest.fixture(scope="module")
def product(folder: Path) -> Iterator[Stack]:
    """One model under several settings for images, and one that takes text only."""
    from_hosts = {"allowed_hosts": ["127.0.0.1"], "allow_http": True, "max_fetch_s": 1, "max_redirects": 2}
    models = [
        {"name": "vision", "path": str(folder)},
        {"name": "text", "path": "demo/model"},
        {
            "name": "fetching",
            "path": str(folder),
            "engine": THREAD,
            "images": from_hosts | {"allow_private_addresses": True, "max_bytes": 100_000},
        },
        {"name": "public", "path": str(folder), "engine": THREAD, "images": from_hosts | {"allowed_hosts": ["*"]}},
    ]
    stack = Stack(environment={"SLUICE_SERVICE_MODELS": json.dumps(models)})
    try:
        stack.wait_for("sluice is ready")
        yield stack
    finally:
        assert stack.stop() == 0, stack.output


def openai_content(*parts: Any) -> list[dict[str, Any]]:
    return [
        {"type": "text", "text": part}
        if isinstance(part, str)
        else {"type": "image_url", "image_url": {"url": data_url(part), "detail": "low"}}
        for part in parts
    ]


def ask(product: Stack, path: str, body: dict[str, Any], **headers: str) -> Any:
    answer = httpx.post(f"{product.door}{path}", json=body, headers=headers, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.json()


def chat(product: Stack, content: Any, model: str = "vision", **fields: Any) -> httpx.Response:
    body = {"model": model, "messages": [{"role": "user", "content": content}], "temperature": 0, "max_tokens": 8}
    return httpx.post(f"{product.door}/v1/chat/completions", json=body | fields, timeout=60)


def by_url(url: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": "Look: "}, {"type": "image_url", "image_url": {"url": url}}]


def said_in_grpc(*parts: Any) -> list[content_pb2.Message]:
    content = [
        content_pb2.ContentPart(text=part)
        if isinstance(part, str)
        else content_pb2.ContentPart(image=content_pb2.InlineImage(data=file_of(part), media_type="image/png"))
        for part in parts
    ]
    return [content_pb2.Message(role=content_pb2.ROLE_USER, content=content)]


def test_answers_over_grpc_are_the_references(product: Stack, expected: tuple[list[int], list[int]]) -> None:
    """Prompt and answer, token by token; the usage tells which tokens stand for images."""
    request = chat_pb2.ChatRequest(model="vision", messages=said_in_grpc(*SAID))
    request.sampling.temperature = 0
    request.stopping.max_tokens = NUM_TOKENS
    request.stopping.ignore_eos = True
    request.tokens.ids = True
    with grpc.insecure_channel(f"127.0.0.1:{product.ports['envoy']}") as channel:
        answer = chat_pb2_grpc.ChatServiceStub(channel).Chat(request, timeout=60)
        model = model_pb2_grpc.ModelServiceStub(channel).GetModel(model_pb2.GetModelRequest(model="vision")).model
    assert (list(answer.prompt_token_ids), list(answer.choices[0].token_ids)) == expected
    assert (answer.usage.prompt_tokens, answer.usage.image_tokens) == (len(expected[0]), 2 * NUM_IMAGE_TOKENS)
    assert list(model.input_modalities) == [model_pb2.MODALITY_TEXT, model_pb2.MODALITY_IMAGE]
    listed = httpx.get(f"{product.door}/v1/models", timeout=60).json()["data"]
    taken = {each["id"]: each["input_modalities"] for each in listed}
    assert (taken["vision"], taken["text"]) == (["text", "image"], ["text"])


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "GIF"])
def test_answers_are_the_references_in_openais_chats(
    product: Stack, folder: Path, expected: tuple[list[int], list[int]], kind: str
) -> None:
    """By data URLs of every lossless kind of file; a GIF has few colours, so its reference is what it shows."""
    images = {"PNG": (CAT, DOG), "WEBP": (CAT, DOG), "GIF": (CAT.quantize(), DOG.quantize())}[kind]
    urls = [data_url(image, kind) for image in images] if kind == "GIF" else [data_url(CAT), data_url(DOG)]
    content = [
        {"type": "text", "text": "What is it? "},
        {"type": "image_url", "image_url": {"url": urls[0]}},
        {"type": "text", "text": " and "},
        {"type": "image_url", "image_url": {"url": urls[1]}},
    ]
    wanted = expected
    if kind == "GIF":
        wanted = reference(folder, "What is it? ", images[0].convert("RGB"), " and ", images[1].convert("RGB"))
    answer = chat(product, content, ignore_eos=True, return_token_ids=True).json()
    assert (answer["prompt_token_ids"], answer["choices"][0]["token_ids"]) == wanted


def test_every_dialect_shows_the_model_the_same(product: Stack, expected: tuple[list[int], list[int]]) -> None:
    """The same words and images give the same answer, of a prompt of the same length, streamed and not."""
    first = chat(product, openai_content(*SAID)).json()
    text, num_tokens = first["choices"][0]["message"]["content"], len(expected[0])
    assert first["usage"]["prompt_tokens"] == num_tokens
    message = {"role": "user", "content": openai_content(*SAID)}
    plain = {"messages": [message], "temperature": 0, "max_tokens": 8}
    for path, extra in (
        (AZURE, {"model": "vision"}),
        ("/serving-endpoints/vision/invocations", {"stream": False}),
        ("/serving-endpoints/chat/completions", {"model": "vision"}),
    ):
        answer = ask(product, path, plain | extra)
        assert (answer["choices"][0]["message"]["content"], answer["usage"]["prompt_tokens"]) == (text, num_tokens)
    items = [
        {"type": "input_text", "text": part}
        if isinstance(part, str)
        else {"type": "input_image", "image_url": data_url(part)}
        for part in SAID
    ]
    for path in ("/v1/responses", "/serving-endpoints/responses"):
        body = {
            "model": "vision",
            "input": [{"role": "user", "content": items}],
            "temperature": 0,
            "max_output_tokens": 8,
        }
        answer = ask(product, path, body)
        assert answer["usage"]["input_tokens"] == num_tokens
        assert answer["output"][0]["content"][0]["text"] == text
    blocks = [
        {"type": "text", "text": part}
        if isinstance(part, str)
        else {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": base64.b64encode(file_of(part)).decode()},
        }
        for part in SAID
    ]
    claude = {"model": "vision", "messages": [{"role": "user", "content": blocks}]}
    version = {"anthropic-version": "2023-06-01"}
    answer = ask(product, "/v1/messages", claude | {"max_tokens": 8, "temperature": 0}, **version)
    assert (answer["content"][0]["text"], answer["usage"]["input_tokens"]) == (text, num_tokens) or (
        answer["usage"]["cache_read_input_tokens"] + answer["usage"]["input_tokens"] == num_tokens
    )
    assert ask(product, "/v1/messages/count_tokens", claude, **version)["input_tokens"] == num_tokens
    assert ask(product, "/tokenize", {"model": "vision", "messages": [message]})["count"] == num_tokens


def test_models_without_images_refuse_them_in_every_dialect(product: Stack) -> None:
    """With the dialect's own status and body, and the part's own name."""
    url = data_url(picture(3, (4, 4)))
    message = {"role": "user", "content": by_url(url)}
    item = {"role": "user", "content": [{"type": "input_image", "image_url": url}]}
    block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": url.partition(",")[2]}}
    for path, body, status in (
        ("/v1/chat/completions", {"messages": [message]}, 400),
        ("/v1/responses", {"input": [item]}, 400),
        ("/v1/messages", {"messages": [{"role": "user", "content": [block]}], "max_tokens": 4}, 400),
        (AZURE, {"messages": [message]}, 422),
        ("/serving-endpoints/text/invocations", {"messages": [message], "stream": False}, 400),
    ):
        answer = httpx.post(f"{product.door}{path}", json={"model": "text"} | body, timeout=60)
        assert answer.status_code == status, answer.text
        assert "the model takes text only" in answer.text


def _png(width: int, height: int) -> bytes:
    """A file of few bytes that claims to be as large as that."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b"")
    )


def _data(data: bytes, kind: str = "image/png") -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        (_data(_png(60_000, 60_000)), "the image has 60000 x 60000 pixels; the limit is 33554432"),
        (_data(file_of(CAT)[:-100]), "the image/png file is broken or cut off"),
        (_data(file_of(CAT, "JPEG")[:-300]), "the image/jpeg file is broken or cut off"),
        (_data(b"<svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml"), "can't be read as an image"),
        (_data(b""), "can't be read as an image"),
        ("data:image/png;base64,@@@@", "is no base64"),
        ("data:image/png", "is no data URL"),
        ("https://example.com/cat.png", "images are not fetched by URL here (images.allowed_hosts)"),
        ("file:///etc/passwd", "images are not fetched by URL here (images.allowed_hosts)"),
        (_data(b"x" * 11_000_000), "the image has more than 10485760 bytes, which is the limit (images.max_bytes)"),
    ],
    ids=["bomb", "cut png", "cut jpeg", "svg", "empty", "base64", "no data url", "url", "file url", "too large"],
)
def test_bad_images_are_refused_by_name_and_limit(product: Stack, url: str, words: str) -> None:
    """With 400 and the part's own path, over REST; the model goes on."""
    answer = chat(product, by_url(url))
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert words in error["message"]
    assert error["param"].startswith("messages.0.content.1.image_url")


def test_too_many_images_are_refused_before_any_is_read(product: Stack) -> None:
    """In one message and in many."""
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,@"}}
    one = chat(product, [part] * 33)
    many = chat(product, "", messages=[{"role": "user", "content": [part] * 1000}] * 10)
    for answer, number in ((one, 33), (many, 10_000)):
        assert answer.status_code == 400
        assert answer.json()["error"]["message"].endswith(f"has {number} images; the limit is 32 (images.max_images)")


def test_images_that_exceed_the_context_are_counted(product: Stack) -> None:
    """By their tokens, though their files be small."""
    answer = chat(product, openai_content(*[picture(3, (4, 4))] * 31))
    assert answer.status_code == 400
    assert "tokens; the limit is 511" in answer.json()["error"]["message"]


def test_callers_that_spell_an_images_tokens_show_the_model_none(product: Stack, folder: Path) -> None:
    """What marks an image is text where a caller writes it."""
    spelled = "<start_of_image><image_soft_token><end_of_image>"
    answer = chat(product, openai_content(spelled, CAT), return_token_ids=True)
    assert answer.status_code == 200, answer.text
    soft = reference(folder, "", CAT)[0]
    assert answer.json()["prompt_token_ids"].count(112) == soft.count(112) == NUM_IMAGE_TOKENS


def test_images_are_fetched_where_the_settings_allow_it(
    product: Stack, folder: Path, expected: tuple[list[int], list[int]]
) -> None:
    """By URL, over redirects that stay among the allowed hosts."""
    files = {"/cat.png": ("image/png", file_of(CAT)), "/dog": ("application/octet-stream", file_of(DOG))}
    with PictureServer(files) as server:
        base = f"http://127.0.0.1:{server.port}"
        content = [
            {"type": "text", "text": "What is it? "},
            {"type": "image_url", "image_url": {"url": f"{base}/cat.png"}},
            {"type": "text", "text": " and "},
            {"type": "image_url", "image_url": {"url": f"{base}/redirect?to=/dog"}},
        ]
        answer = chat(product, content, "fetching", ignore_eos=True, return_token_ids=True)
        assert answer.status_code == 200, answer.text
        assert answer.json()["choices"][0]["token_ids"] == expected[1]
        source = {"type": "url", "url": f"{base}/cat.png"}
        body = {"model": "fetching", "max_tokens": 4}
        blocks = [{"type": "text", "text": "Look: "}, {"type": "image", "source": source}]
        ask(product, "/v1/messages", body | {"messages": [{"role": "user", "content": blocks}]})


def test_what_should_not_be_fetched_is_not(product: Stack) -> None:
    """Hosts, redirects, sizes, types and times that the settings exclude: each with 400 and its setting's name."""
    files = {
        "/large.png": ("image/png", b"x" * 100_001),
        "/page": ("text/html", b"<html>"),
        "/cat.png": ("image/png", file_of(CAT)),
    }
    with PictureServer(files) as server:
        base = f"http://127.0.0.1:{server.port}"
        for model, url, words in (
            ("fetching", f"http://localhost:{server.port}/cat.png", "the host 'localhost' (images.allowed_hosts)"),
            ("fetching", f"{base}/redirect?to=http://localhost:{server.port}/cat.png", "(images.allowed_hosts)"),
            ("fetching", f"{base}/redirect?to=file:///etc/passwd", "the URL"),
            ("fetching", f"{base}/redirect?to=/redirect?to=/redirect?to=/redirect?to=/cat.png", "images.max_redirects"),
            ("fetching", f"{base}/large.png", "images.max_bytes"),
            ("fetching", f"{base}/endless", "images.max_bytes"),
            ("fetching", f"{base}/page", "it is no image, but 'text/html'"),
            ("fetching", f"{base}/none", "status 404"),
            ("fetching", f"{base}/slow", "it took longer than 1 s (images.max_fetch_s)"),
            ("fetching", f"http://user:secret@127.0.0.1:{server.port}/cat.png", "without a user's name and password"),
            ("fetching", "http://127.0.0.1:1/cat.png", "its host can't be reached"),
        ):
            answer = chat(product, by_url(url), model)
            assert answer.status_code == 400, answer.text
            assert words in answer.json()["error"]["message"]
        del server.asked[:]
        for host in ("127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::1]", "[::ffff:127.0.0.1]", "[::]"):
            answer = chat(product, by_url(f"http://{host}:{server.port}/cat.png"), "public")
            assert answer.status_code == 400
            assert "images.allow_private_addresses" in answer.json()["error"]["message"]
        assert not server.asked


def test_a_slow_host_holds_up_nobody_else(product: Stack) -> None:
    """While more requests than may fetch from it wait for one, another host's images and texts are answered."""
    with PictureServer({"/cat.png": ("image/png", file_of(CAT))}) as slow, ThreadPoolExecutor(12) as threads:
        waiting = [
            threads.submit(chat, product, by_url(f"http://127.0.0.1:{slow.port}/slow"), "fetching") for _ in range(12)
        ]
        assert chat(product, "Hello", "fetching").status_code == 200
        assert chat(product, openai_content("Look: ", CAT), "fetching").status_code == 200
        assert {answer.result().status_code for answer in waiting} == {400}

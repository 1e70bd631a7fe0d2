"""`sluice-watermark`: ask a running service whether one of its models wrote a text.

The text is read from a file or from standard input; the answer is one line. The exit code is 0, or 1 with one line on
standard error if the service can't answer.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import grpc
from sluice.v1 import watermark_pb2, watermark_pb2_grpc

_TIMEOUT_S = 60.0


def main() -> None:
    """Run the console script."""
    parser = argparse.ArgumentParser(prog="sluice-watermark", description="Look for a model's watermark in a text.")
    parser.add_argument("file", nargs="?", type=Path, help="the text, in UTF-8; default: standard input")
    parser.add_argument("--model", default="sluice-demo", help="the model that may have written it (%(default)s)")
    parser.add_argument("--target", default="127.0.0.1:50051", help="host:port of the service (%(default)s)")
    options = parser.parse_args()
    try:
        text = options.file.read_text(encoding="utf-8") if options.file else sys.stdin.buffer.read().decode()
    except (OSError, UnicodeDecodeError) as error:
        sys.exit(f"{parser.prog}: {error}")
    with grpc.insecure_channel(options.target) as channel:
        stub = watermark_pb2_grpc.WatermarkServiceStub(channel)
        request = watermark_pb2.DetectWatermarkRequest(model=options.model, text=text)
        try:
            score = stub.DetectWatermark(request, timeout=_TIMEOUT_S)
        except grpc.RpcError as error:
            sys.exit(f"{parser.prog}: {error.code().name}: {error.details()}")
    print(_line(score))  # noqa: T201  the command's answer


def _line(score: watermark_pb2.DetectWatermarkResponse) -> str:
    return (
        f"z-score {score.z_score:.2f}, p-value {score.p_value:.2g}: "
        f"{score.green_fraction:.1%} of {score.num_tokens} scored tokens are green"
    )


if __name__ == "__main__":
    main()

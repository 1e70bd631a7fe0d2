"""Convert a folder to a GGUF file by llama.cpp's own converter: `python -m bench.serving.convert_folder FOLDER FILE`.

The converter knows tokenizers by digests of their results, and refuses one that it doesn't know; this module names
GPT-2's pre-tokenizer instead. llama.cpp's converter and its `gguf` package lie next to its server.
"""

from __future__ import annotations

import sys
from pathlib import Path

CONVERTER = Path(__file__).resolve().parents[2] / ".cache" / "llama.cpp" / "converter"


def main() -> None:
    """Convert a folder."""
    folder, file = sys.argv[1:]
    sys.path[:0] = [str(CONVERTER), str(CONVERTER / "gguf-py")]
    import convert_hf_to_gguf  # noqa: PLC0415  it is no installed package
    from conversion.base import TextModel  # noqa: PLC0415

    TextModel.get_vocab_base_pre = lambda _self, _tokenizer: "gpt-2"
    sys.argv = ["convert_hf_to_gguf.py", folder, "--outfile", file, "--outtype", "bf16"]
    convert_hf_to_gguf.main()


if __name__ == "__main__":
    main()

"""Convert a folder to a GGUF file by llama.cpp's own converter: `python -m bench.serving.convert_folder FOLDER FILE`.

The converter knows tokenizers by digests of their results, and refuses one that it doesn't know; this module names
GPT-2's pre-tokenizer instead. llama.cpp's converter and its `gguf` package lie next to its server.
"""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
from pathlib import Path

CONVERTER = Path(__file__).resolve().parents[2] / ".cache" / "llama.cpp" / "converter"
_OLD_KINDS = {"full_attention": "attention", "linear_attention": "mamba"}  # that the converter knows of Granite
# Models whose files may lack the layers that predict further tokens.
_WITH_PREDICTORS = ("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text")


def main() -> None:
    """Convert a folder."""
    folder, file = Path(sys.argv[1]), sys.argv[2]
    sys.path[:0] = [str(CONVERTER), str(CONVERTER / "gguf-py")]
    converter = importlib.import_module("convert_hf_to_gguf")
    text_model = importlib.import_module("conversion.base").TextModel
    text_model.get_vocab_base_pre = lambda *_: "gpt-2"
    with tempfile.TemporaryDirectory() as made:
        for path in folder.iterdir():
            (Path(made) / path.name).symlink_to(path)
        config = json.loads((folder / "config.json").read_text())
        # Many look for SentencePiece's files first, or for tokens of their own.
        model_class = importlib.import_module("conversion").get_model_class(config["architectures"][0])
        model_class.set_vocab = text_model._set_vocab_gpt2  # noqa: SLF001
        if config["model_type"] == "granitemoehybrid":
            config["layer_types"] = [_OLD_KINDS[kind] for kind in config["layer_types"]]
            (Path(made) / "config.json").unlink()
            (Path(made) / "config.json").write_text(json.dumps(config))
        sys.argv = ["convert_hf_to_gguf.py", made, "--outfile", file, "--outtype", "bf16"]
        if config["model_type"] in _WITH_PREDICTORS:
            sys.argv.append("--no-mtp")
        converter.main()


if __name__ == "__main__":
    main()

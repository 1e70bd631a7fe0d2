"""The key that encrypts cached prompts in files."""

from pathlib import Path

from process.settings.process_settings import read_settings
from service.settings.config import Settings


def test_cache_is_encrypted_with_the_key_of_stored_responses(tmp_path: Path) -> None:
    """It applies to every model, also to one with engine settings of its own, unless these have another key."""
    (tmp_path / "config.yaml").write_text(
        "stored_responses: {encryption_key_file: /key}\n"
        "models:\n"
        "  - {name: a, path: /a}\n"
        "  - {name: b, path: /b, engine: {cache_folder: /cache}}\n"
        "  - {name: c, path: /c, engine: {cache_folder: /cache, cache_key_file: /other}}\n"
    )
    settings = read_settings(Settings, [f"--config={tmp_path / 'config.yaml'}"])
    chosen = [model.engine and str(model.engine.cache_key_file) for model in settings.served_models()]
    assert chosen == ["/key", "/key", "/other"]
    demo, _ = read_settings(Settings, []).served_models()
    assert demo.engine is not None
    assert demo.engine.cache_key_file is None

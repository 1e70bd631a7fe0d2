"""The web pages: chat at `/`, status at `/status`, the documentation at `/docs/`. Static files."""

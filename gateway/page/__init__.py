"""The pages: to chat on at `/`, for operators at `/status`, the documentation at `/docs/`; plain files for browsers."""

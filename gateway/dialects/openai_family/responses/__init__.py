"""OpenAI's responses API: request bodies with their items, parts and tools; the response object and its events."""

"""Chats in the JSON of OpenAI's family: request bodies, messages, whole and streamed answers."""

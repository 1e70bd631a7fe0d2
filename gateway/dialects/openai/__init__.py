"""The OpenAI dialect: chats, completions, embeddings, responses, models, tokens."""

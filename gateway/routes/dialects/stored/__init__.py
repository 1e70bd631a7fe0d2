"""The operations of stored objects in the OpenAI style: responses, conversations, files and batches."""

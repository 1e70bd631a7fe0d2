"""What the dialects of OpenAI's family share: bodies, answers, and the way back for field names."""

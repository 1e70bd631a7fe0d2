"""Text completions in the JSON of OpenAI's family: request bodies, whole and streamed answers, their logprobs."""

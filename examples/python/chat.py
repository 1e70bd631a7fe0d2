"""Python: streams a chat, sets a deadline, cancels, decodes an error, calls a tool. Usage: python chat.py HOST:PORT."""

import sys

from sluice_client import CancelledError, Client, DeadlineExceededError, InvalidRequestError, function

CITY = {"type": "string", "maxLength": 30}
PARAMETERS = {"type": "object", "properties": {"city": CITY}, "required": ["city"], "additionalProperties": False}

with Client(sys.argv[1]) as client:
    print("answer: ", end="")
    for piece in client.stream_chat("What is the capital of France?", temperature=0).text():
        print(piece, end="", flush=True)
    print()

    try:
        client.chat("Tell me of France.", n=32, temperature=2, max_tokens=1000, ignore_eos=True, timeout=0.3)
    except DeadlineExceededError as error:
        print("deadline:", error.code.name)

    stream = client.stream_chat("Tell me of France.", n=32, temperature=2, max_tokens=1000, ignore_eos=True)
    try:
        for number, _ in enumerate(stream.text(), start=1):
            if number == 3:
                stream.cancel()
    except CancelledError as error:
        print("cancel:", error.code.name)

    try:
        client.chat("Hello!", temperature=3)
    except InvalidRequestError as error:
        print("error:", error.code.name, error.reason)
        print("field:", error.field, error.violations[0].description)

    weather = function("get_weather", "Returns the weather in a city.", PARAMETERS)
    answer = client.chat("What is the weather in Paris?", tools=[weather], tool_choice="required")
    call = answer.tool_calls[0].function
    print("tool:", call.name, call.arguments)

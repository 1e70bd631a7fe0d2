"""Between the contract's messages and values: requests on their way down, events on their way back. Pure."""

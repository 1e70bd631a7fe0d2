"""Parameters that the bodies of several APIs have in common: sampling, formats, tools, prompts, stream options."""

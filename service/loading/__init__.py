"""From the settings of a model to a served model: its engine, prompts, images and place in the registry."""

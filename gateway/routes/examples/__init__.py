"""Working examples of bodies, parameters and streams for the OpenAPI document."""

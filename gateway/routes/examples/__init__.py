"""Working examples of bodies, parameters and streams, for the API's description."""

"""The names of the gateway's attributes, by the semantic conventions.

`process.telemetry.attributes` has those that the service shares.
"""

HTTP_METHOD = "http.request.method"
HTTP_ROUTE = "http.route"
HTTP_STATUS = "http.response.status_code"
URL_PATH = "url.path"
URL_SCHEME = "url.scheme"
USER_AGENT = "user_agent.original"
SERVER_ADDRESS = "server.address"

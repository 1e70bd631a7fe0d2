"""Names of the gateway's span and metric attributes, by OpenTelemetry's semantic conventions.

`process.telemetry.attributes` has the names that gateway and service share.
"""

HTTP_METHOD = "http.request.method"
HTTP_ROUTE = "http.route"
HTTP_STATUS = "http.response.status_code"
URL_PATH = "url.path"
URL_SCHEME = "url.scheme"
USER_AGENT = "user_agent.original"
SERVER_ADDRESS = "server.address"

"""Names of attributes that both processes report, by OpenTelemetry's semantic conventions for RPC, and our own."""

from __future__ import annotations

RPC_SYSTEM_NAME = "rpc.system.name"
RPC_METHOD = "rpc.method"
RPC_STATUS_CODE = "rpc.response.status_code"
ERROR_TYPE = "error.type"
REQUEST_ID = "sluice.request_id"

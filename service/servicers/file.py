"""sluice.v1.FileService."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from sluice.v1 import file_pb2, file_pb2_grpc

from service.answering.batches.files import Files
from service.answering.batches.request_stream import complete_stream, read_after_rejection
from service.answering.generation import Context


class FileServicer(file_pb2_grpc.FileServiceServicer):
    """Implements FileService."""

    def __init__(self, files: Files) -> None:
        self._files = files

    async def UploadFile(  # noqa: N802
        self,
        request_iterator: AsyncIterator[file_pb2.UploadFileRequest],
        context: Context,
    ) -> file_pb2.UploadFileResponse:
        messages = complete_stream(request_iterator, context)
        async with read_after_rejection(request_iterator), aclosing(messages):
            return file_pb2.UploadFileResponse(file=await self._files.upload(messages))

    async def GetFile(self, request: file_pb2.GetFileRequest, context: Context) -> file_pb2.GetFileResponse:  # noqa: ARG002, N802
        return file_pb2.GetFileResponse(file=await self._files.get(request.id))

    async def ListFiles(self, request: file_pb2.ListFilesRequest, context: Context) -> file_pb2.ListFilesResponse:  # noqa: ARG002, N802
        return await self._files.list(request)

    async def DeleteFile(self, request: file_pb2.DeleteFileRequest, context: Context) -> file_pb2.DeleteFileResponse:  # noqa: ARG002, N802
        await self._files.delete(request.id)
        return file_pb2.DeleteFileResponse()

    async def RecordFileSize(  # noqa: N802
        self,
        request: file_pb2.RecordFileSizeRequest,
        context: Context,  # noqa: ARG002
    ) -> file_pb2.RecordFileSizeResponse:
        await self._files.record_size(request.id, request.num_bytes)
        return file_pb2.RecordFileSizeResponse()

    async def DownloadFile(  # noqa: N802
        self,
        request: file_pb2.DownloadFileRequest,
        context: Context,  # noqa: ARG002
    ) -> AsyncGenerator[file_pb2.DownloadFileResponse, None]:
        async with aclosing(self._files.content(request.id)) as parts:
            async for part in parts:
                yield file_pb2.DownloadFileResponse(content=part)

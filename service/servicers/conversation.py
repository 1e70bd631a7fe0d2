"""sluice.v1.ConversationService."""

from __future__ import annotations

from sluice.v1 import conversation_pb2, conversation_pb2_grpc

from service.answering.conversations import Conversations
from service.answering.generation import Context


class ConversationServicer(conversation_pb2_grpc.ConversationServiceServicer):
    """Implements ConversationService."""

    def __init__(self, conversations: Conversations) -> None:
        self._conversations = conversations

    async def CreateConversation(  # noqa: N802
        self,
        request: conversation_pb2.CreateConversationRequest,
        context: Context,  # noqa: ARG002
    ) -> conversation_pb2.CreateConversationResponse:
        return conversation_pb2.CreateConversationResponse(conversation=await self._conversations.create(request))

    async def GetConversation(  # noqa: N802
        self,
        request: conversation_pb2.GetConversationRequest,
        context: Context,  # noqa: ARG002
    ) -> conversation_pb2.GetConversationResponse:
        return conversation_pb2.GetConversationResponse(conversation=await self._conversations.get(request.id))

    async def UpdateConversation(  # noqa: N802
        self,
        request: conversation_pb2.UpdateConversationRequest,
        context: Context,  # noqa: ARG002
    ) -> conversation_pb2.UpdateConversationResponse:
        return conversation_pb2.UpdateConversationResponse(conversation=await self._conversations.update(request))

    async def DeleteConversation(  # noqa: N802
        self,
        request: conversation_pb2.DeleteConversationRequest,
        context: Context,  # noqa: ARG002
    ) -> conversation_pb2.DeleteConversationResponse:
        await self._conversations.delete(request.id)
        return conversation_pb2.DeleteConversationResponse()

    async def AddConversationItems(  # noqa: N802
        self,
        request: conversation_pb2.AddConversationItemsRequest,
        context: Context,  # noqa: ARG002
    ) -> conversation_pb2.AddConversationItemsResponse:
        return conversation_pb2.AddConversationItemsResponse(items=await self._conversations.add(request))

    async def ListConversationItems(  # noqa: N802
        self,
        request: conversation_pb2.ListConversationItemsRequest,
        context: Context,  # noqa: ARG002
    ) -> conversation_pb2.ListConversationItemsResponse:
        return await self._conversations.items(request)

    async def GetConversationItem(  # noqa: N802
        self,
        request: conversation_pb2.GetConversationItemRequest,
        context: Context,  # noqa: ARG002
    ) -> conversation_pb2.GetConversationItemResponse:
        return conversation_pb2.GetConversationItemResponse(item=await self._conversations.item(request))

    async def DeleteConversationItem(  # noqa: N802
        self,
        request: conversation_pb2.DeleteConversationItemRequest,
        context: Context,  # noqa: ARG002
    ) -> conversation_pb2.DeleteConversationItemResponse:
        return conversation_pb2.DeleteConversationItemResponse(
            conversation=await self._conversations.delete_item(request)
        )

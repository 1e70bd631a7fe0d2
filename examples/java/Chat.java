// Java: streams a chat, sets a deadline, cancels, decodes an error, calls a tool.
import com.google.protobuf.Any;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import io.grpc.Context;
import io.grpc.ManagedChannel;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.netty.NettyChannelBuilder;
import io.grpc.protobuf.StatusProto;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import sluice.v1.*;

public final class Chat {
    static ChatRequest.Builder user(String text) {
        Message message = Message.newBuilder().setRole(Role.ROLE_USER)
            .addContent(ContentPart.newBuilder().setText(text)).build();
        return ChatRequest.newBuilder().setModel("sluice-demo").addMessages(message);
    }

    /** Calls `read` with each piece of the answer, and returns how the stream ended. */
    static Status.Code stream(ChatServiceGrpc.ChatServiceBlockingStub chat, ChatRequest request, Consumer<String> read) {
        try {
            chat.streamChat(request).forEachRemaining(event -> {
                if (event.hasContentDelta()) read.accept(event.getContentDelta().getText());
            });
            return Status.Code.OK;
        } catch (StatusRuntimeException error) {
            return error.getStatus().getCode();
        }
    }

    public static void main(String[] arguments) throws Exception {
        ManagedChannel channel = NettyChannelBuilder.forTarget(arguments[0]).usePlaintext().build();
        var chat = ChatServiceGrpc.newBlockingStub(channel);

        var greedy = SamplingParams.newBuilder().setTemperature(0);
        System.out.print("answer: ");
        stream(chat, user("What is the capital of France?").setSampling(greedy).build(), System.out::print);

        ChatRequest request = user("Tell me of France.").setN(32)
            .setSampling(SamplingParams.newBuilder().setTemperature(2))
            .setStopping(StopParams.newBuilder().setMaxTokens(1000).setIgnoreEos(true)).build();
        var limited = chat.withDeadlineAfter(300, TimeUnit.MILLISECONDS);
        System.out.println("\ndeadline: " + stream(limited, request, text -> {}));

        Context.CancellableContext leaving = Context.current().withCancellation();
        int[] deltas = {0};
        leaving.run(() -> System.out.println("cancel: " + stream(chat, request, text -> {
            if (++deltas[0] == 3) leaving.cancel(null);
        })));

        try {
            chat.chat(user("Hello!").setSampling(SamplingParams.newBuilder().setTemperature(3)).build());
        } catch (StatusRuntimeException error) {
            for (Any detail : StatusProto.fromThrowable(error).getDetailsList()) {
                if (detail.is(ErrorInfo.class)) {
                    String reason = detail.unpack(ErrorInfo.class).getReason();
                    System.out.println("error: " + error.getStatus().getCode() + " " + reason);
                } else if (detail.is(BadRequest.class)) {
                    var violation = detail.unpack(BadRequest.class).getFieldViolations(0);
                    System.out.println("field: " + violation.getField() + " " + violation.getDescription());
                }
            }
        }

        var function = FunctionDefinition.newBuilder().setName("get_weather").setParameters(
            "{\"type\": \"object\", \"properties\": {\"city\": {\"type\": \"string\", \"maxLength\": 30}},"
                + " \"required\": [\"city\"], \"additionalProperties\": false}");
        ChatResponse answer = chat.chat(user("What is the weather in Paris?")
            .addTools(Tool.newBuilder().setFunction(function))
            .setToolChoice(ToolChoice.newBuilder().setMode(ToolChoiceMode.TOOL_CHOICE_MODE_REQUIRED)).build());
        FunctionCall call = answer.getChoices(0).getMessage().getToolCalls(0).getFunction();
        System.out.println("tool: " + call.getName() + " " + call.getArguments());
        channel.shutdownNow();
    }
}

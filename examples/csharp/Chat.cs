// C#: streams a chat, sets a deadline, cancels, decodes an error, calls a tool. With the packages Grpc.Net.Client,
// Grpc.Tools, Google.Protobuf and Google.Api.CommonProtos, and the contract's files as <Protobuf GrpcServices="Client">.
using System;
using System.Threading;
using System.Threading.Tasks;
using Google.Rpc;
using Grpc.Core;
using Grpc.Net.Client;
using Sluice.V1;

public static class Program
{
    static ChatRequest User(string text)
    {
        var message = new Message { Role = Role.User };
        message.Content.Add(new ContentPart { Text = text });
        var request = new ChatRequest { Model = "sluice-demo" };
        request.Messages.Add(message);
        return request;
    }

    // Calls `read` with each piece of the answer, and returns how the stream ended.
    static async Task<StatusCode> Stream(AsyncServerStreamingCall<StreamChatResponse> call, Action<string> read)
    {
        try
        {
            while (await call.ResponseStream.MoveNext(CancellationToken.None))
                if (call.ResponseStream.Current.ContentDelta != null) read(call.ResponseStream.Current.ContentDelta.Text);
            return StatusCode.OK;
        }
        catch (RpcException error)
        {
            return error.StatusCode;
        }
    }

    public static async Task Main(string[] arguments)
    {
        var chat = new ChatService.ChatServiceClient(GrpcChannel.ForAddress("http://" + arguments[0]));

        var question = User("What is the capital of France?");
        question.Sampling = new SamplingParams { Temperature = 0 };
        Console.Write("answer: ");
        await Stream(chat.StreamChat(question), Console.Write);

        var request = User("Tell me of France.");
        request.N = 32;
        request.Sampling = new SamplingParams { Temperature = 2 };
        request.Stopping = new StopParams { MaxTokens = 1000, IgnoreEos = true };
        var late = chat.StreamChat(request, deadline: DateTime.UtcNow.AddMilliseconds(300));
        Console.WriteLine("\ndeadline: " + await Stream(late, text => { }));

        var leaving = new CancellationTokenSource();
        var deltas = 0;
        var left = chat.StreamChat(request, cancellationToken: leaving.Token);
        Console.WriteLine("cancel: " + await Stream(left, text => { if (++deltas == 3) leaving.Cancel(); }));

        try
        {
            question.Sampling.Temperature = 3;
            await chat.ChatAsync(question);
        }
        catch (RpcException error)
        {
            var status = Google.Rpc.Status.Parser.ParseFrom(error.Trailers.GetValueBytes("grpc-status-details-bin"));
            foreach (var detail in status.Details)
            {
                ErrorInfo info;
                BadRequest bad;
                if (detail.TryUnpack(out info)) Console.WriteLine("error: " + error.StatusCode + " " + info.Reason);
                if (detail.TryUnpack(out bad))
                    Console.WriteLine("field: " + bad.FieldViolations[0].Field + " " + bad.FieldViolations[0].Description);
            }
        }

        var weather = User("What is the weather in Paris?");
        var parameters = "{\"type\": \"object\", \"properties\": {\"city\": {\"type\": \"string\", \"maxLength\": 30}},"
            + " \"required\": [\"city\"], \"additionalProperties\": false}";
        weather.Tools.Add(new Tool { Function = new FunctionDefinition { Name = "get_weather", Parameters = parameters } });
        weather.ToolChoice = new ToolChoice { Mode = ToolChoiceMode.Required };
        var answer = await chat.ChatAsync(weather);
        var call = answer.Choices[0].Message.ToolCalls[0].Function;
        Console.WriteLine("tool: " + call.Name + " " + call.Arguments);
    }
}

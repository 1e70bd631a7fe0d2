// Go: streams a chat, sets a deadline, cancels, decodes an error, calls a tool.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "sluice/v1"
)

func user(text string) *pb.ChatRequest {
	part := &pb.ContentPart{Part: &pb.ContentPart_Text{Text: text}}
	message := &pb.Message{Role: pb.Role_ROLE_USER, Content: []*pb.ContentPart{part}}
	return &pb.ChatRequest{Model: "sluice-demo", Messages: []*pb.Message{message}}
}

func main() {
	channel, err := grpc.Dial(os.Args[1], grpc.WithInsecure())
	if err != nil {
		log.Fatal(err)
	}
	defer channel.Close()
	chat := pb.NewChatServiceClient(channel)

	// stream calls `read` with each piece of the answer, and returns how the stream ended: io.EOF or a status.
	stream := func(ctx context.Context, request *pb.ChatRequest, read func(text string)) error {
		events, err := chat.StreamChat(ctx, request)
		for err == nil {
			var event *pb.StreamChatResponse
			if event, err = events.Recv(); err == nil && event.GetContentDelta() != nil {
				read(event.GetContentDelta().Text)
			}
		}
		return err
	}

	question := user("What is the capital of France?")
	question.Sampling = &pb.SamplingParams{Temperature: proto.Float32(0)}
	var answer strings.Builder
	stream(context.Background(), question, func(text string) { answer.WriteString(text) })
	fmt.Println("answer:", answer.String())

	long := user("Tell me of France.")
	long.N = proto.Uint32(32)
	long.Sampling = &pb.SamplingParams{Temperature: proto.Float32(2)}
	long.Stopping = &pb.StopParams{MaxTokens: proto.Uint32(1000), IgnoreEos: proto.Bool(true)}
	within, done := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer done()
	fmt.Println("deadline:", status.Code(stream(within, long, func(string) {})))

	leaving, leave := context.WithCancel(context.Background())
	deltas := 0
	err = stream(leaving, long, func(string) {
		if deltas++; deltas == 3 {
			leave()
		}
	})
	fmt.Println("cancel:", status.Code(err))

	question.Sampling.Temperature = proto.Float32(3)
	_, err = chat.Chat(context.Background(), question)
	for _, detail := range status.Convert(err).Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			fmt.Println("error:", status.Code(err), detail.Reason)
		case *errdetails.BadRequest:
			fmt.Println("field:", detail.FieldViolations[0].Field, detail.FieldViolations[0].Description)
		}
	}

	weather := user("What is the weather in Paris?")
	weather.Tools = []*pb.Tool{{Tool: &pb.Tool_Function{Function: &pb.FunctionDefinition{
		Name: "get_weather",
		Parameters: `{"type": "object", "properties": {"city": {"type": "string", "maxLength": 30}},
			"required": ["city"], "additionalProperties": false}`,
	}}}}
	weather.ToolChoice = &pb.ToolChoice{Choice: &pb.ToolChoice_Mode{Mode: pb.ToolChoiceMode_TOOL_CHOICE_MODE_REQUIRED}}
	whole, err := chat.Chat(context.Background(), weather)
	if err != nil {
		log.Fatal(err)
	}
	call := whole.Choices[0].Message.ToolCalls[0].GetFunction()
	fmt.Println("tool:", call.Name, call.Arguments)
}

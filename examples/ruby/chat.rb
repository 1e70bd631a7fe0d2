# Ruby: streams a chat, sets a deadline, cancels, decodes an error, calls a tool.
require "google/protobuf/well_known_types"
require "google/rpc/error_details_pb"
require "google/rpc/status_pb"
require "grpc"
require "sluice/v1/chat_services_pb"

include Sluice::V1

def user(text, **others)
  message = Message.new(role: :ROLE_USER, content: [ContentPart.new(text: text)])
  ChatRequest.new(model: "sluice-demo", messages: [message], **others)
end

CHAT = ChatService::Stub.new(ARGV[0], :this_channel_is_insecure)

print "answer: "
question = user("What is the capital of France?", sampling: SamplingParams.new(temperature: 0))
CHAT.stream_chat(question).each { |event| print event.content_delta.text if event.content_delta }
puts

long = user("Tell me of France.", n: 32, sampling: SamplingParams.new(temperature: 2),
            stopping: StopParams.new(max_tokens: 1000, ignore_eos: true))
begin
  CHAT.stream_chat(long, deadline: Time.now + 0.3).each { |event| event }
rescue GRPC::DeadlineExceeded
  puts "deadline: DEADLINE_EXCEEDED"
end

operation = CHAT.stream_chat(long, return_op: true)
deltas = 0
begin
  operation.execute.each do |event|
    deltas += 1 if event.content_delta
    operation.cancel if deltas == 3
  end
rescue GRPC::Cancelled
  puts "cancel: CANCELLED"
end

begin
  CHAT.chat(user("Hello!", sampling: SamplingParams.new(temperature: 3)))
rescue GRPC::InvalidArgument => error
  Google::Rpc::Status.decode(error.metadata["grpc-status-details-bin"]).details.each do |detail|
    if detail.is(Google::Rpc::ErrorInfo)
      puts "error: INVALID_ARGUMENT #{detail.unpack(Google::Rpc::ErrorInfo).reason}"
    elsif detail.is(Google::Rpc::BadRequest)
      violation = detail.unpack(Google::Rpc::BadRequest).field_violations.first
      puts "field: #{violation.field} #{violation.description}"
    end
  end
end

parameters = '{"type": "object", "properties": {"city": {"type": "string", "maxLength": 30}},
               "required": ["city"], "additionalProperties": false}'
weather = Tool.new(function: FunctionDefinition.new(name: "get_weather", parameters: parameters))
answer = CHAT.chat(user("What is the weather in Paris?", tools: [weather],
                        tool_choice: ToolChoice.new(mode: :TOOL_CHOICE_MODE_REQUIRED)))
call = answer.choices.first.message.tool_calls.first.function
puts "tool: #{call.name} #{call.arguments}"

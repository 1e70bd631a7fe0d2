<?php
// PHP: streams a chat, sets a deadline, cancels, decodes an error, calls a tool. gRPC's extension is in PECL only; this
// speaks gRPC over curl, which needs no more than a frame around each message. Usage: php chat.php HOST:PORT OUT_FOLDER
set_include_path(get_include_path() . ":$argv[2]");
spl_autoload_register(fn($class) => include strtr($class, '\\', '/') . '.php');

use Google\Protobuf\Internal\Message as Proto;
use Google\Rpc\{BadRequest, ErrorInfo, Status};
use Sluice\V1\{ChatRequest, ChatResponse, ContentPart, FunctionDefinition, Message, Role, SamplingParams, StopParams};
use Sluice\V1\{StreamChatResponse, Tool, ToolChoice, ToolChoiceMode};

/** Calls a method. `read` gets each message and returns whether to go on. Returns [status, trailers]. */
function call(string $path, Proto $request, string $answer, callable $read, ?int $ms = null): array
{
    global $argv;
    [$buffer, $headers] = ['', []];
    $bytes = $request->serializeToString();
    $curl = curl_init("http://$argv[1]/sluice.v1.ChatService/$path");
    curl_setopt_array($curl, [
        CURLOPT_HTTP_VERSION => CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE,
        CURLOPT_POSTFIELDS => pack('CN', 0, strlen($bytes)) . $bytes,
        CURLOPT_HTTPHEADER => ['content-type: application/grpc', 'te: trailers', ...($ms ? ["grpc-timeout: {$ms}m"] : [])],
        CURLOPT_HEADERFUNCTION => function ($_, $line) use (&$headers) {
            [$name, $value] = explode(':', $line, 2) + [1 => ''];
            $headers[strtolower($name)] = trim($value);
            return strlen($line);
        },
        CURLOPT_WRITEFUNCTION => function ($_, $piece) use (&$buffer, $answer, $read) {
            $buffer .= $piece;
            while (strlen($buffer) >= 5 && strlen($buffer) >= 5 + ($size = unpack('N', $buffer, 1)[1])) {
                $message = new $answer();
                $message->mergeFromString(substr($buffer, 5, $size));
                $buffer = substr($buffer, 5 + $size);
                if (!$read($message)) return 0;  // which resets the stream, and so cancels the call
            }
            return strlen($piece);
        },
    ]);
    $cancelled = !curl_exec($curl) && curl_errno($curl) === CURLE_WRITE_ERROR;
    return [$cancelled ? 'CANCELLED' : (int) ($headers['grpc-status'] ?? 2), $headers];
}

function user(string $text, array $others = []): ChatRequest
{
    $message = new Message(['role' => Role::ROLE_USER, 'content' => [new ContentPart(['text' => $text])]]);
    return new ChatRequest(['model' => 'sluice-demo', 'messages' => [$message]] + $others);
}

echo 'answer: ';
$question = user('What is the capital of France?', ['sampling' => new SamplingParams(['temperature' => 0])]);
call('StreamChat', $question, StreamChatResponse::class, function ($event) {
    echo $event->getContentDelta()?->getText();
    return true;
});

$long = user('Tell me of France.', ['n' => 32, 'sampling' => new SamplingParams(['temperature' => 2]),
    'stopping' => new StopParams(['max_tokens' => 1000, 'ignore_eos' => true])]);
[$status] = call('StreamChat', $long, StreamChatResponse::class, fn() => true, 300);
echo "\ndeadline: ", $status === 4 ? 'DEADLINE_EXCEEDED' : $status;

$deltas = 0;
[$status] = call('StreamChat', $long, StreamChatResponse::class, function ($event) use (&$deltas) {
    return ($deltas += $event->hasContentDelta()) < 3;
});
echo "\ncancel: $status\n";

$invalid = user('Hello!', ['sampling' => new SamplingParams(['temperature' => 3])]);
[$status, $trailers] = call('Chat', $invalid, ChatResponse::class, fn() => true);
$details = new Status();
$details->mergeFromString(base64_decode($trailers['grpc-status-details-bin']));
class_exists(ErrorInfo::class) && class_exists(BadRequest::class);
GPBMetadata\Google\Rpc\ErrorDetails::initOnce();
foreach ($details->getDetails() as $detail) {
    if ($detail->is(ErrorInfo::class)) {
        echo 'error: ', $status === 3 ? 'INVALID_ARGUMENT' : $status, ' ', $detail->unpack()->getReason(), "\n";
    } elseif ($detail->is(BadRequest::class)) {
        $violation = $detail->unpack()->getFieldViolations()[0];
        echo 'field: ', $violation->getField(), ' ', $violation->getDescription(), "\n";
    }
}

$parameters = '{"type": "object", "properties": {"city": {"type": "string", "maxLength": 30}},
    "required": ["city"], "additionalProperties": false}';
$weather = new Tool(['function' => new FunctionDefinition(['name' => 'get_weather', 'parameters' => $parameters])]);
$choice = new ToolChoice(['mode' => ToolChoiceMode::TOOL_CHOICE_MODE_REQUIRED]);
$request = user('What is the weather in Paris?', ['tools' => [$weather], 'tool_choice' => $choice]);
call('Chat', $request, ChatResponse::class, function ($answer) {
    $call = $answer->getChoices()[0]->getMessage()->getToolCalls()[0]->getFunction();
    echo 'tool: ', $call->getName(), ' ', $call->getArguments(), "\n";
    return true;
});

// C++: streams a chat, sets a deadline, cancels, decodes an error, calls a tool.
#include <chrono>
#include <functional>
#include <iostream>
#include <string>

#include <grpcpp/grpcpp.h>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "sluice/v1/chat.grpc.pb.h"

namespace v1 = sluice::v1;
using Chat = v1::ChatService::Stub;

v1::ChatRequest user(const std::string& text) {
    v1::ChatRequest request;
    request.set_model("sluice-demo");
    auto* message = request.add_messages();
    message->set_role(v1::ROLE_USER);
    message->add_content()->set_text(text);
    return request;
}

// Calls `read` with each piece of the answer, and returns how the stream ended.
grpc::Status stream(Chat& chat, grpc::ClientContext& context, const v1::ChatRequest& request,
                    const std::function<void(const std::string&)>& read) {
    auto events = chat.StreamChat(&context, request);
    v1::StreamChatResponse event;
    while (events->Read(&event))
        if (event.has_content_delta()) read(event.content_delta().text());
    return events->Finish();
}

int main(int, char** arguments) {
    const auto chat = v1::ChatService::NewStub(grpc::CreateChannel(arguments[1], grpc::InsecureChannelCredentials()));

    auto question = user("What is the capital of France?");
    question.mutable_sampling()->set_temperature(0);
    grpc::ClientContext first;
    std::cout << "answer: ";
    stream(*chat, first, question, [](const std::string& text) { std::cout << text << std::flush; });

    auto request = user("Tell me of France.");
    request.set_n(32);
    request.mutable_sampling()->set_temperature(2);
    request.mutable_stopping()->set_max_tokens(1000);
    request.mutable_stopping()->set_ignore_eos(true);
    grpc::ClientContext limited;
    limited.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(300));
    const bool late = stream(*chat, limited, request, [](auto&) {}).error_code() == grpc::DEADLINE_EXCEEDED;
    std::cout << "\ndeadline: " << (late ? "DEADLINE_EXCEEDED" : "in time") << '\n';

    grpc::ClientContext leaving;
    int deltas = 0;
    const auto left = stream(*chat, leaving, request, [&](auto&) { if (++deltas == 3) leaving.TryCancel(); });
    std::cout << "cancel: " << (left.error_code() == grpc::CANCELLED ? "CANCELLED" : "whole") << '\n';

    question.mutable_sampling()->set_temperature(3);
    grpc::ClientContext invalid;
    v1::ChatResponse answer;
    google::rpc::Status status;
    status.ParseFromString(chat->Chat(&invalid, question, &answer).error_details());
    google::rpc::ErrorInfo info;
    google::rpc::BadRequest bad;
    for (const auto& detail : status.details()) {
        if (detail.UnpackTo(&info)) std::cout << "error: INVALID_ARGUMENT " << info.reason() << '\n';
        if (detail.UnpackTo(&bad))
            std::cout << "field: " << bad.field_violations(0).field() << ' ' << bad.field_violations(0).description()
                      << '\n';
    }

    auto weather = user("What is the weather in Paris?");
    auto* function = weather.add_tools()->mutable_function();
    function->set_name("get_weather");
    function->set_parameters(R"({"type": "object", "properties": {"city": {"type": "string", "maxLength": 30}},
                                "required": ["city"], "additionalProperties": false})");
    weather.mutable_tool_choice()->set_mode(v1::TOOL_CHOICE_MODE_REQUIRED);
    grpc::ClientContext last;
    if (const auto whole = chat->Chat(&last, weather, &answer); !whole.ok()) {
        std::cerr << whole.error_message() << '\n';
        return 1;
    }
    const auto& call = answer.choices(0).message().tool_calls(0).function();
    std::cout << "tool: " << call.name() << ' ' << call.arguments() << '\n';
}

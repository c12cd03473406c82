"""more_clients.py URL BYTES PACKAGE - conversations, streams, defaults, structured answers and calls through the
package's own interface. The server at BYTES can write any text."""
import os
import sys

from client import case, run

URL, BYTES, QUESTIONS = sys.argv[1] + '/v1', sys.argv[2] + '/v1', ('the red kettle', 'and then', 'the old sailor')


def litellm():
    os.environ['LITELLM_LOCAL_MODEL_COST_MAP'] = 'True'  # so that the package sends no request to other hosts
    import litellm
    fields = dict(model='openai/demo', api_base=URL, api_key='none', temperature=0)
    messages = []
    for question in QUESTIONS:
        messages.append({'role': 'user', 'content': question})
        answer = litellm.completion(messages=messages, max_tokens=5, **fields)
        messages.append(answer.choices[0].message)
    parts = litellm.completion(messages=messages[:-1], max_tokens=5, stream=True, **fields)
    text = ''.join(part.choices[0].delta.content or '' for part in parts)
    assert text == messages[-1].content, (text, messages[-1].content)
    answer = litellm.completion(messages=messages[:1], **fields)
    assert answer.choices[0].finish_reason in ('stop', 'length') and answer.usage.completion_tokens > 0
    from structured import River, check
    for seed in range(3):
        answer = litellm.completion(model='openai/bytes', api_base=BYTES, api_key='none', messages=messages[:1],
                                    response_format=River, max_tokens=1500, seed=seed)
        check(River.model_validate_json(answer.choices[0].message.content))
    tool = {'type': 'function', 'function': {'name': 'note', 'parameters': River.model_json_schema()}}
    answer = litellm.completion(model='openai/bytes', api_base=BYTES, api_key='none', messages=messages[:1], tools=[tool],
                                tool_choice='required', max_tokens=1500)
    call = answer.choices[0].message.tool_calls[0]
    assert answer.choices[0].finish_reason == 'tool_calls' and call.function.name == 'note'
    check(River.model_validate_json(call.function.arguments))


def langchain_openai():
    from langchain_core.messages import HumanMessage
    from langchain_openai import ChatOpenAI
    chat = ChatOpenAI(model='gpt-4o', base_url=URL, api_key='none', temperature=0, max_tokens=5)
    messages = []
    for question in QUESTIONS:
        messages.append(HumanMessage(question))
        messages.append(chat.invoke(messages))
    text = ''.join(part.content for part in chat.stream(messages[:-1]))
    assert text == messages[-1].content
    assert len(chat.batch([[message] for message in messages[::2]])) == 3
    free = ChatOpenAI(model='demo', base_url=URL, api_key='none', temperature=0)
    assert free.invoke(messages[:1]).response_metadata['finish_reason'] in ('stop', 'length')
    from structured import River, check
    for seed in range(3):
        writer = ChatOpenAI(model='bytes', base_url=BYTES, api_key='none', seed=seed, max_tokens=1500)
        check(writer.with_structured_output(River, method='json_schema').invoke(messages[:1]))
        got = writer.with_structured_output(River, method='json_schema', include_raw=True).batch([messages[:1]] * 2)
        assert got[0]['parsed'] == got[1]['parsed'] and not got[0]['parsing_error']
        check(got[0]['parsed'])
        check(writer.with_structured_output(River, method='function_calling').invoke(messages[:1]))
        message = writer.bind_tools([River], tool_choice='any').invoke(messages[:1])
        assert [call['name'] for call in message.tool_calls] == ['River'] and not message.invalid_tool_calls
        check(River.model_validate(message.tool_calls[0]['args']))


def llm():
    from llm.default_plugins.openai_models import Chat
    model = Chat('demo', key='none', model_name='demo', api_base=URL)
    conversation = model.conversation()
    for question in QUESTIONS:
        answer = conversation.prompt(question, temperature=0, max_tokens=5, stream=False)
        assert answer.text() is not None
    assert len(conversation.responses) == 3
    text = ''.join(model.prompt(QUESTIONS[0], temperature=0, max_tokens=5))
    assert text == conversation.responses[0].text()
    model.prompt(QUESTIONS[0], temperature=0).text()


case(globals()[sys.argv[3]])
run()

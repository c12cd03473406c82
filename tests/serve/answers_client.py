"""answers_client.py URL PACKAGE - the answers of scripts.py as users of the package get them: whole, and assembled from
a stream by the package's own code."""
import json
import os
import sys

from scripts import SCRIPTS

from client import case, run

URL = sys.argv[1] + '/v1'
TOOLS = [{'type': 'function', 'function': {'name': name, 'description': name, 'parameters': {
    'type': 'object', 'properties': {}}}} for name in ('add', 'stop')]


def messages(i):
    return [{'role': 'user', 'content': str(i)}]


def same(i, reasoning, content, calls, finish):
    """Compares an answer with script i. `calls` are pairs of a name and the arguments' text."""
    _, _, wanted_reasoning, wanted_content, wanted_calls = SCRIPTS[i]
    assert (reasoning or '') == wanted_reasoning and (content or '') == wanted_content, (i, reasoning, content)
    assert [list(call) for call in calls] == [list(call) for call in wanted_calls], (i, calls)
    assert finish == ('tool_calls' if wanted_calls else 'stop'), (i, finish)


def calls_of(message):
    return [(call.function.name, call.function.arguments) for call in message.tool_calls or []]


def openai():
    from openai import OpenAI
    client = OpenAI(base_url=URL, api_key='none')
    for i in range(len(SCRIPTS)):
        fields = dict(model='scripts', messages=messages(i), tools=TOOLS, max_tokens=500)
        choice = client.chat.completions.create(**fields).choices[0]
        same(i, getattr(choice.message, 'reasoning_content', None), choice.message.content, calls_of(choice.message),
             choice.finish_reason)
        reasoning, arguments = '', {}
        with client.chat.completions.stream(**fields) as stream:
            for event in stream:
                if event.type == 'chunk':
                    reasoning += getattr(event.chunk.choices[0].delta, 'reasoning_content', None) or ''
                if event.type == 'tool_calls.function.arguments.delta':
                    arguments[event.index] = arguments.get(event.index, '') + event.arguments_delta
            last = stream.get_final_completion().choices[0]
        same(i, reasoning, last.message.content, calls_of(last.message), last.finish_reason)
        assert [arguments[k] for k in sorted(arguments)] == [call[1] for call in SCRIPTS[i][4]]


def litellm():
    os.environ['LITELLM_LOCAL_MODEL_COST_MAP'] = 'True'  # so that the package sends no request to other hosts
    import litellm
    for i in range(len(SCRIPTS)):
        fields = dict(model='openai/scripts', api_base=URL, api_key='none', messages=messages(i), tools=TOOLS, max_tokens=500)
        choice = litellm.completion(**fields).choices[0]
        same(i, getattr(choice.message, 'reasoning_content', None), choice.message.content, calls_of(choice.message),
             choice.finish_reason)
        parts = list(litellm.completion(stream=True, **fields))
        choice = litellm.stream_chunk_builder(parts, messages=fields['messages']).choices[0]
        same(i, getattr(choice.message, 'reasoning_content', None), choice.message.content, calls_of(choice.message),
             choice.finish_reason)


def langchain_openai():
    from langchain_openai import ChatOpenAI
    chat = ChatOpenAI(model='scripts', base_url=URL, api_key='none', max_tokens=500).bind_tools(TOOLS)
    for i, (_, _, _, content, calls) in enumerate(SCRIPTS):
        whole = chat.invoke(str(i))
        parts = None
        for part in chat.stream(str(i)):
            parts = part if parts is None else parts + part
        for message in (whole, parts):
            assert message.content == content and not message.invalid_tool_calls, (i, message)
            assert [(call['name'], call['args']) for call in message.tool_calls] == [
                (name, json.loads(arguments)) for name, arguments in calls], (i, message)
            assert message.response_metadata['finish_reason'] == ('tool_calls' if calls else 'stop'), (i, message)


case(globals()[sys.argv[2]])
run()

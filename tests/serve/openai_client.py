"""openai_client.py URL BYTES - typical uses of the openai package. The server at BYTES can write any text."""
import asyncio
import json
import sys

import openai
from structured import River, check

from client import case, run

client = openai.OpenAI(base_url=sys.argv[1] + '/v1', api_key='none', max_retries=0)
writer = openai.OpenAI(base_url=sys.argv[2] + '/v1', api_key='none', max_retries=0)
MESSAGES = [{'role': 'user', 'content': 'the red kettle'}]


@case
def models():
    assert [model.id for model in client.models.list()] == ['demo']


@case
def completions():
    got = client.completions.create(model='demo', prompt='the old sailor', max_tokens=5, temperature=0, logprobs=2,
                                    extra_body={'kv': 'streaming:budget=32'})
    assert got.usage.completion_tokens <= 5 and got.choices[0].logprobs.token_logprobs
    assert got.usage.kv['policy'] == 'streaming:budget=32'


@case
def chats():
    fields = dict(model='demo', messages=MESSAGES, max_tokens=8, temperature=0, extra_body={'ignore_eos': True})
    whole = client.chat.completions.create(logprobs=True, top_logprobs=2, **fields)
    assert whole.choices[0].finish_reason == 'length' and len(whole.choices[0].logprobs.content) == 8
    text = ''
    for chunk in client.chat.completions.create(stream=True, stream_options={'include_usage': True}, **fields):
        text += (chunk.choices[0].delta.content or '') if chunk.choices else ''
        usage = chunk.usage
    assert text == whole.choices[0].message.content and usage.completion_tokens == 8


@case
def at_once():
    async def ask(asynchronous, seed):
        stream = await asynchronous.chat.completions.create(model='demo', messages=MESSAGES, max_tokens=12, seed=seed,
                                                            stream=True, extra_body={'ignore_eos': True})
        return ''.join([chunk.choices[0].delta.content or '' async for chunk in stream])

    async def all_of_them():
        async with openai.AsyncOpenAI(base_url=sys.argv[1] + '/v1', api_key='none') as asynchronous:
            return await asyncio.gather(*[ask(asynchronous, seed % 4) for seed in range(8)])

    texts = asyncio.run(all_of_them())
    assert texts[:4] == texts[4:]


@case
def conversations():
    """A message that the server wrote is part of the next request, as an object of the package and as a dictionary."""
    messages = list(MESSAGES)
    for dump in (lambda message: message, lambda message: message.model_dump(), lambda message: message.to_dict()):
        answer = client.chat.completions.create(model='gpt-4o', messages=messages, max_completion_tokens=4)
        messages += [dump(answer.choices[0].message), {'role': 'user', 'content': 'and then'}]
    assert answer.usage.prompt_tokens > 10


@case
def fields_of_no_effect():
    fields = dict(model='demo', messages=MESSAGES, temperature=0, max_tokens=5)
    plain = client.chat.completions.create(**fields).choices[0].message.content
    more = client.chat.completions.create(
        **fields, response_format={'type': 'text'}, tool_choice='none', parallel_tool_calls=False, service_tier='auto',
        modalities=['text'], metadata={'a': 'b'}, store=False, prompt_cache_key='a', safety_identifier='b',
        reasoning_effort='low', user='c', seed=-1, stop='', frequency_penalty=0, presence_penalty=0, logit_bias={},
        extra_body={'top_k': -1, 'nobody_knows': 1})
    assert more.choices[0].message.content == plain


@case
def structured_answers():
    for seed in range(3):
        fields = dict(model='bytes', messages=MESSAGES, seed=seed, max_tokens=1500)
        whole = writer.chat.completions.parse(response_format=River, **fields).choices[0].message
        check(whole.parsed)
        with writer.chat.completions.stream(response_format=River, **fields) as stream:
            text = ''.join(event.delta for event in stream if event.type == 'content.delta')
            last = stream.get_final_completion().choices[0]
        assert text == whole.content and last.message.parsed == whole.parsed and last.finish_reason == 'stop'
    got = writer.chat.completions.create(model='bytes', messages=MESSAGES, response_format={'type': 'json_object'}, n=8,
                                         max_tokens=300)
    texts = [choice.message.content for choice in got.choices if choice.finish_reason == 'stop']
    assert texts and all(isinstance(json.loads(text), dict) for text in texts), got
    try:
        writer.chat.completions.parse(model='bytes', messages=MESSAGES, response_format=River, max_tokens=3)
        raise AssertionError('half an answer was parsed')
    except openai.LengthFinishReasonError:
        pass


@case
def calls():
    """A required call, whole and as a stream; then its result as the next message."""
    tools = [openai.pydantic_function_tool(River, name='note_river', description='Writes down a river.')]
    for seed in range(3):
        fields = dict(model='bytes', messages=MESSAGES, tools=tools, tool_choice='required', seed=seed, max_tokens=1500)
        choice = writer.chat.completions.parse(**fields).choices[0]
        call = choice.message.tool_calls[0]
        assert choice.finish_reason == 'tool_calls' and call.function.name == 'note_river'
        check(call.function.parsed_arguments)
        with writer.chat.completions.stream(**fields) as stream:
            arguments = ''.join(event.arguments_delta for event in stream
                                if event.type == 'tool_calls.function.arguments.delta')
            last = stream.get_final_completion().choices[0]
        assert arguments == call.function.arguments and last.finish_reason == 'tool_calls'
    told = [*MESSAGES, choice.message, {'role': 'tool', 'tool_call_id': call.id, 'content': 'noted'}]
    answer = writer.chat.completions.create(model='bytes', messages=told, tools=tools, tool_choice='none', max_tokens=3)
    assert answer.choices[0].message.tool_calls is None


@case
def errors():
    try:
        client.completions.create(model='demo', prompt='a', frequency_penalty=3)
        raise AssertionError('it was not refused')
    except openai.BadRequestError as error:
        assert error.param == 'frequency_penalty' and error.type == 'invalid_request_error'
    try:
        client.chat.completions.create(model='demo', messages=MESSAGES, response_format={'type': 'xml'})
        raise AssertionError('it was not refused')
    except openai.BadRequestError as error:
        assert error.param == 'response_format' and error.code == 'unsupported_parameter'


run()

"""openai_client.py URL - what programs do with the openai package."""
import asyncio
import sys

import openai

from client import case, run

client = openai.OpenAI(base_url=sys.argv[1] + '/v1', api_key='none', max_retries=0)
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
def errors():
    try:
        client.completions.create(model='demo', prompt='a', frequency_penalty=1)
        raise AssertionError('it was not refused')
    except openai.BadRequestError as error:
        assert error.param == 'frequency_penalty' and error.type == 'invalid_request_error'
    try:
        client.completions.create(model='other', prompt='a')
        raise AssertionError('it was not refused')
    except openai.NotFoundError as error:
        assert error.code == 'model_not_found'


run()

/* page.c - the page at /: a chat, a choice of policies, and the text shaded by the percentage of lists that hold each
 * token. The page loads nothing from other servers. It inserts model output as text, never as HTML. */
#include "serve/http.h"

static const char *const style[] = {
    ":root{color-scheme:light dark;--bg:#fff;--fg:#16191d;--dim:#59616b;--line:#c3cad2;--card:#f1f4f7;--key:#0b62a4;",
    "--on:#fff;--bad:#b3263a;--held:#9cc9ec}",
    "@media(prefers-color-scheme:dark){:root{--bg:#12161b;--fg:#e8ecf0;--dim:#9aa5b1;--line:#3c4651;--card:#1b222a;",
    "--key:#5db3f0;--on:#0b1118;--bad:#ff8793;--held:#225683}}",
    "*{box-sizing:border-box}[hidden]{display:none!important}body{margin:0 auto;max-width:1100px;padding:12px 16px ",
    "24px;background:var(--bg);",
    "color:var(--fg);font:15px/1.5 system-ui,sans-serif;overflow-wrap:anywhere}",
    "h1{font-size:20px;margin:4px 0}h2{font-size:15px;margin:20px 0 4px}p{margin:4px 0}.dim{color:var(--dim)}",
    "form,.row{display:flex;flex-wrap:wrap;gap:10px;align-items:end}label{display:grid;font-size:13px;gap:2px}",
    "input,select,textarea,button{font:inherit;color:inherit;background:var(--bg);border:1px solid var(--line);",
    "border-radius:6px;padding:6px 9px;min-height:40px;max-width:100%}input[type=number]{width:100px}",
    "button{background:var(--key);color:var(--on);border-color:var(--key);cursor:pointer;padding:6px 16px}",
    "button.plain{background:none;color:inherit;border-color:var(--line)}button:disabled{opacity:.5;cursor:default}",
    ":focus-visible{outline:3px solid var(--key);outline-offset:2px}textarea{flex:1 1 190px;min-width:0;height:64px;",
    "resize:vertical}#talk{display:grid;gap:10px;margin:14px 0}.said{white-space:pre-wrap;background:var(--card);",
    "border-radius:8px;padding:8px 12px;margin:0}.user{border-left:4px solid var(--key)}.bad{color:var(--bad)}",
    "dl{display:flex;flex-wrap:wrap;gap:6px 26px;margin:6px 0}dt{font-size:12px;color:var(--dim)}dd{margin:0;",
    "font-variant-numeric:tabular-nums}#text{white-space:pre-wrap;font:13px/1.7 ui-monospace,monospace;margin:6px 0;",
    "border:1px solid var(--line);border-radius:8px;padding:10px;min-height:60px}#text span{border-radius:2px}",
    "#text .gone{color:var(--dim);text-decoration:line-through;text-decoration-thickness:1px}",
    "form,#wrong{scroll-margin-bottom:12px}.waits::before{content:attr(data-wait);color:var(--dim)}",
    ".waits::after{content:'';display:inline-block;width:9px;height:9px;margin-left:8px;border-radius:50%;",
    "background:var(--key);animation:beat .8s infinite alternate}@keyframes beat{to{opacity:.15;transform:scale(.6)}}",
    "@media(prefers-reduced-motion:reduce){.waits::after{animation:none}}"};

static const char *const body[] = {
    "<header><h1>kvcull: <span id='model'>a model</span></h1>",
    "<p class='dim'>Talk with it, and see what the cache still holds of the text.</p></header>",
    "<main><div class='row'><label>Method<select id='method'></select></label>",
    "<label>Budget (tokens)<input id='budget' type='number' min='16' max='1000000' value='256'></label>",
    "<label>Answer at most<input id='most' type='number' min='1' max='100000' value='256'></label>",
    "<label>Temperature<input id='heat' type='number' min='0' max='2' step='0.1' value='0.7'></label>",
    "<label id='lock' hidden>API key<input id='key' type='password' autocomplete='off'></label>",
    "<button class='plain' id='anew' type='button'>New chat</button></div>",
    "<div id='talk' role='log' aria-live='polite' aria-label='Conversation'></div>",
    "<form id='form'><textarea id='ask' aria-label='Your message' placeholder='Write a message. Enter sends it.'",
    " required></textarea><button id='send'>Send</button>",
    "<button class='plain' id='stop' type='button' disabled>Stop</button></form>",
    "<p id='wrong' class='bad' role='alert'></p>",
    "<section aria-labelledby='kept'><h2 id='kept'>What the cache holds</h2><dl>",
    "<div><dt>held</dt><dd id='held'>-</dd></div><div><dt>full would hold</dt><dd id='full'>-</dd></div>",
    "<div><dt>tokens</dt><dd id='count'>-</dd></div><div><dt>tokens per second</dt><dd id='speed'>-</dd></div></dl>",
    "<p class='dim'>Darker: more of the cache's lists have the token. Struck out: none has.</p>",
    "<div id='text' tabindex='0' aria-label='The text, shaded by what is held'></div></section></main>"};

static const char *const script[] = {
    "'use strict';const $=i=>document.getElementById(i);let talk=[],pieces=[],stop=null;",
    "function size(n){const u=['B','KiB','MiB','GiB'];let i=0;while(n>=1024&&i<3){n/=1024;i++}",
    "return (i?n.toFixed(n<10?2:1):n)+' '+u[i]}", "function head(){const h={'Content-Type':'application/json'};",
    "if($('key').value)h.Authorization='Bearer '+$('key').value;return h}",
    "async function fail(r){let t='HTTP '+r.status;try{t=(await r.json()).error.message}catch(e){}",
    "if(r.status===401){$('lock').hidden=false;$('key').focus()}throw new Error(t)}",
    "function say(role,text){const p=document.createElement('p');p.className='said '+role;p.textContent=text;",
    "$('talk').append(p);return p}",
    /* shows a moving sign until an answer's first text arrives; returns a function that removes it */
    "function wait(p){const from=performance.now(),show=()=>{",
    "p.dataset.wait='Reading the prompt: '+Math.floor((performance.now()-from)/1000)+' s'};",
    "p.classList.add('waits');show();const timer=setInterval(show,250);",
    "return()=>{clearInterval(timer);p.classList.remove('waits')}}",
    /* keeps the scroll position of a user who has scrolled up */
    "function atEnd(){const b=$('form').getBoundingClientRect().bottom;return b>0&&b<=innerHeight+60}",
    "function toEnd(){$('form').scrollIntoView({block:'nearest'})}",
    "async function models(){const r=await fetch('v1/models',{headers:head()});if(!r.ok)await fail(r);",
    "const m=(await r.json()).data[0];$('model').textContent=m.id;document.title='kvcull: '+m.id;",
    "$('method').textContent='';const add=(text,spec,budget)=>{const o=new Option(text,spec);",
    "o.dataset.budget=budget?1:'';$('method').append(o)};add('Server default: '+m.default_kv,m.default_kv,false);",
    "for(const one of m.methods)add(one.name,one.name,one.budget);choose()}",
    "function choose(){const o=$('method').selectedOptions[0];$('budget').disabled=!(o&&o.dataset.budget)}",
    "function spec(){const o=$('method').selectedOptions[0];if(!o)return undefined;",
    "return o.dataset.budget?o.value+':budget='+$('budget').value:o.value}",
    "function shade(held){const box=$('text');box.textContent='';pieces.forEach((t,i)=>{",
    "const s=document.createElement('span'),h=held[i];s.textContent=t;if(h===0)s.className='gone';",
    "else if(h!==undefined)s.style.background='color-mix(in srgb,var(--held) '+h+'%,transparent)';",
    "s.title=h===undefined?'not in the cache yet':h+' % of the lists';box.append(s)})}",
    "function take(e,out){if(e.error)throw new Error(e.error.message);const c=e.choices[0];if(!c)return;",
    "if(c.delta.content){const follow=atEnd();out.stopWait();out.text.textContent+=c.delta.content;if(follow)toEnd()}",
    "if(c.prompt_pieces)pieces=c.prompt_pieces.slice();",
    "if(c.pieces){pieces.push(...c.pieces);out.count+=c.pieces.length;if(!out.start)out.start=performance.now()}",
    "$('count').textContent=pieces.length;const s=(performance.now()-out.start)/1000;",
    "if(s>0&&out.count>1)$('speed').textContent=((out.count-1)/s).toFixed(1);",
    "if(c.held){shade(c.held);$('held').textContent=size(c.bytes.cache+c.bytes.state);",
    "$('full').textContent=size(c.bytes.full)}}",
    "async function ask(text){const mine=talk,asked=say('user',text),answer=say('assistant','');",
    "const out={text:answer,count:0,start:0,stopWait:wait(answer),over:false};stop=new AbortController();",
    "talk.push({role:'user',content:text});toEnd();",
    "try{const r=await fetch('v1/chat/completions',{method:'POST',headers:head(),signal:stop.signal,",
    "body:JSON.stringify({messages:talk,stream:true,kv:spec(),return_held:true,cache_prompt:true,",
    "max_tokens:+$('most').value,temperature:+$('heat').value,seed:Math.floor(Math.random()*2**31)})});",
    "if(!r.ok)await fail(r);const read=r.body.getReader(),utf=new TextDecoder();let left='';",
    "for(;;){const{done,value}=await read.read();if(done)break;left+=utf.decode(value,{stream:true});",
    "const parts=left.split('\\n\\n');left=parts.pop();for(const p of parts){const d=p.slice(6);",
    "if(d==='[DONE]')out.over=true;else take(JSON.parse(d),out)}}",
    "if(!out.over)throw new Error('The answer ended early.')}",
    "finally{out.stopWait();stop.abort();if(talk===mine){if(out.over||answer.textContent)",
    "talk.push({role:'assistant',content:answer.textContent});",
    /* no answer: restores the conversation and the input field, so that the user can send the text again */
    "else{talk.pop();asked.remove();answer.remove();$('ask').value=text+($('ask').value&&'\\n'+$('ask').value)}}}}",
    "$('form').addEventListener('submit',async e=>{e.preventDefault();const ",
    "t=$('ask').value;if(!t.trim()||stop)return;",
    "$('ask').value='';$('wrong').textContent='';$('send').disabled=true;$('stop').disabled=false;",
    "try{await ask(t)}catch(x){if(x.name!=='AbortError'){",
    "$('wrong').textContent=x.name==='TypeError'?'The server does not answer.':x.message;",
    "$('wrong').scrollIntoView({block:'nearest'})}}",
    "stop=null;$('send').disabled=false;$('stop').disabled=true;$('ask').focus({preventScroll:true})});",
    "$('ask').addEventListener('keydown',e=>{if(e.key==='Enter'&&!e.shiftKey&&!e.isComposing){e.preventDefault();",
    "$('form').requestSubmit()}});$('stop').addEventListener('click',()=>stop&&stop.abort());",
    "$('anew').addEventListener('click',()=>{if(stop)stop.abort();talk=[];pieces=[];$('talk').textContent='';",
    "$('text').textContent='';for(const i of['held','full','count','speed'])$(i).textContent='-';$('ask').focus()});",
    "$('method').addEventListener('change',choose);",
    "$('key').addEventListener('change',()=>models().catch(x=>$('wrong').textContent=x.message));",
    "models().catch(x=>$('wrong').textContent=x.message);"};

static void page_put(struct serve_text *text, const char *const *lines, size_t count) {
    for (size_t i = 0; i < count; i++)
        serve_text_put(text, lines[i]);
}

enum MHD_Result serve_page(struct serve_exchange *exchange) {
    struct serve_text text = {0};
    serve_text_put(&text, "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
                          "<meta name='viewport' content='width=device-width,initial-scale=1'><title>kvcull</title>"
                          "<link rel='icon' href='data:,'><style>");
    page_put(&text, style, sizeof style / sizeof *style);
    serve_text_put(&text, "</style></head><body>");
    page_put(&text, body, sizeof body / sizeof *body);
    serve_text_put(&text, "<script>");
    page_put(&text, script, sizeof script / sizeof *script);
    serve_text_put(&text, "</script></body></html>");
    return serve_respond(exchange, 200, "text/html; charset=utf-8", &text, "Content-Security-Policy",
                         "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
                         "connect-src 'self'; img-src data:; frame-ancestors 'none'");
}

/* policy.js - the form for a policy: a field for any text that --kv accepts, a list of methods that fills this field,
 * and a slider for the budget. Before the user sends a message, the server forecasts the bytes of the cache. The form
 * shows this forecast next to the slider. */

/* Returns the methods of a policy as {name, budget}; `budget` is a text or null. Only the server knows what a policy
 * may contain. */
function parsePolicy(text) {
    return text.split('+').map((part) => {
        const [name, ...rest] = part.split(':');
        const budget = rest.join(':').match(/(?:^|,)budget=([^,]*)/);
        return {name: name.trim(), budget: budget ? budget[1] : null};
    });
}

const methodOf = (name) => about.methods.find((method) => method.name === name);
const hasBudget = (method) => Boolean(method && method.options.some((option) => option.name === 'budget'));

/* Returns the policy with its first budget replaced, and every further budget that was equal to the first. */
function withBudget(text, budget) {
    const first = parsePolicy(text).map((part) => part.budget).find((value) => value !== null);
    if (first !== undefined)
        return text.replace(/([:,]budget=)([^,+]*)/g, (all, option, value) => value === first ? option + budget : all);
    return text.split('+')
        .map((part) => {
            if (!hasBudget(methodOf(part.split(':')[0].trim()))) return part;
            return part + (part.includes(':') ? ',' : ':') + 'budget=' + budget;
        })
        .join('+');
}

/* The slider's budgets: 16, 24, 32, 48 and so on, up to the context. */
function budgetStops(context) {
    const stops = [];
    for (let stop = 16; stop < context && stops.length < 22; stop *= 2) stops.push(stop, stop * 1.5);
    return stops.filter((stop) => stop < context).concat(context);
}

class PolicyForm {
    /* `question` returns the messages and max_tokens for which to forecast. */
    constructor(box, spec, question) {
        this.parts = fill(
            box, 'policy-form',
            ['method', 'spec', 'wrong-policy', 'methods', 'budget', 'chart', 'budget-now', 'slider', 'forecast']);
        this.question = question;
        this.said = null; /* the forecast for the current form and question; null: not known yet */
        this.stops = budgetStops(about.context);
        this.onchange = () => {};
        this.soon = later(() => this.forecast());
        const {method, spec: field, slider} = this.parts;
        const help = this.parts['wrong-policy'];
        help.id = 'wrong-policy-' + PolicyForm.count++;
        field.setAttribute('aria-describedby', help.id);
        slider.max = this.stops.length - 1;
        this.listMethods();
        method.addEventListener('change', () => this.choose(method.value));
        field.addEventListener('input', () => this.changed());
        slider.addEventListener('input', () => this.set(withBudget(this.value, this.stops[slider.value])));
        this.parts.chart.append(...this.stops.map(() => make('i')));
        this.set(spec);
    }

    forecastLater() {
        if (this.asking) this.asking.abort();
        this.said = null;
        this.soon();
    }

    get value() { return this.parts.spec.value.trim(); }

    listMethods() {
        const list = this.parts.method;
        list.append(make('option', {value: ''}, 'as written'), make('option', {value: '='}, 'as the server'));
        for (const method of about.methods) list.append(make('option', {value: method.name}, method.name));
    }

    choose(name) {
        if (name === '=') this.set(about.kv);
        else if (name) this.set(hasBudget(methodOf(name)) ? withBudget(name, this.budget() || 256) : name);
    }

    set(text) {
        this.parts.spec.value = text;
        this.changed();
    }

    /* Returns the first budget of the policy; null: it has none. */
    budget() {
        const written = parsePolicy(this.value).map((part) => part.budget).find((value) => value !== null);
        return written ?? null;
    }

    changed() {
        const parts = parsePolicy(this.value), {method, methods, slider} = this.parts, budget = this.budget();
        method.value = this.value === about.kv            ? '=' :
            parts.length === 1 && methodOf(parts[0].name) ? parts[0].name :
                                                            '';
        methods.replaceChildren(...parts.map((part) => methodOf(part.name))
                                    .filter(Boolean)
                                    .map((one) => make('li', {}, make('b', {}, one.name), ': ' + one.summary)));
        const usable = parts.some((part) => part.budget !== null || hasBudget(methodOf(part.name)));
        this.parts.budget.hidden = !usable;
        this.parts['budget-now'].textContent = budget ?? 'none written';
        slider.setAttribute(
            'aria-valuetext', budget === null ? 'none written' : budget + (/%$/.test(budget) ? '' : ' entries'));
        if (budget !== null && /^\d+$/.test(budget)) slider.value = this.nearest(+budget);
        this.onchange();
        this.forecastLater();
    }

    nearest(budget) {
        const far = this.stops.map((stop) => Math.abs(Math.log(stop / Math.max(budget, 1))));
        return far.indexOf(Math.min(...far));
    }

    /* ---- what the cache will hold ---- */

    async forecast() {
        const asked = this.value, question = this.question();
        const asking = this.asking = new AbortController();
        try {
            const said = await requestJson('kvcull/forecast', {...policyField(asked), ...question}, asking.signal);
            this.showForecast(said);
            this.wrong('');
            if (!this.parts.budget.hidden) await this.forecastAll(asked, question, asking.signal);
        } catch (error) {
            if (error.name === 'AbortError') return;
            this.said = null;
            this.wrong(error.param === 'kv' ? error.message : '');
            this.parts.forecast.textContent = error.param === 'kv' ? '' : error.message;
        }
    }

    wrong(message) {
        this.parts['wrong-policy'].textContent = message;
        this.parts.spec.setAttribute('aria-invalid', String(Boolean(message)));
    }

    showForecast(said) {
        const held = said.cache + said.state;
        this.said = said;
        this.parts.forecast.replaceChildren(
            `Will hold ${said.exact ? '' : 'about '}`, make('b', {}, byteSize(held)), ` of ${byteSize(said.full)}`,
            ` (${share(held, said.full)}) after a prompt of ${number(said.prompt_tokens)} tokens`,
            ` and an answer of ${number(said.max_tokens)}, ${byteSize(said.peak)} at peak`);
    }

    /* Shows a column for each budget of the slider, except budgets that the policy does not allow. */
    async forecastAll(asked, question, signal) {
        const kvs = this.stops.map((stop) => withBudget(asked, stop));
        const said = await requestJson('kvcull/forecast', {kvs, ...question}, signal);
        const columns = [...this.parts.chart.children];
        said.forecasts.forEach((one, i) => {
            const height = one.full ? Math.min(1, (one.cache + one.state) / one.full) : 0;
            columns[i].style.height = 100 * height + '%';
            columns[i].classList.toggle('refused', Boolean(one.error));
        });
        const budget = this.budget();
        const now = budget !== null && /^\d+$/.test(budget) ? this.nearest(+budget) : -1;
        columns.forEach((column, i) => column.classList.toggle('now', i === now));
    }
}
PolicyForm.count = 0;

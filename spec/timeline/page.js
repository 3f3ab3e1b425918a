// Lays out the picture for a span of time; all else (zoom, pan, links) changes that span.
(function () {
    "use strict";
    const LEFT = 130, RIGHT = 20;
    const $ = (id) => document.getElementById(id);
    const all = (root, css) => Array.from(root.querySelectorAll(css));
    const picture = $("picture"), plot = $("plot"), points = $("points"), axis = $("axis");
    const t0 = +picture.dataset.t0, t1 = +picture.dataset.t1;
    const pad = (t1 - t0) * 0.01, height = +picture.getAttribute("height");
    const marks = all(points, ".mark").map((g) => ({
        g: g, t: +g.dataset.t, y: +g.dataset.y, label: g.querySelector("text") }));
    let from = t0 - pad, to = t1 + pad, width = 0;

    const x = (t) => (t - from) / (to - from) * width;
    const svg = (name, attributes, text) => {
        const node = document.createElementNS("http://www.w3.org/2000/svg", name);
        for (const key in attributes) node.setAttribute(key, attributes[key]);
        if (text !== undefined) node.textContent = text;
        return node;
    };

    // 1, 2 or 5 times a power of ten, about every 110 pixels.
    function step() {
        const rough = (to - from) / (width / 110), power = 10 ** Math.floor(Math.log10(rough));
        return [1, 2, 5, 10].map((f) => f * power).find((s) => s >= rough);
    }

    function drawAxis() {
        const every = step(), ticks = $("ticks");
        const seconds = t1 - t0 >= 2000, digits = Math.max(0, -Math.floor(
            Math.log10(every / (seconds ? 1000 : 1)) + 1e-9));
        ticks.textContent = "";
        $("grid").textContent = "";
        for (let t = Math.ceil(from / every) * every; t <= to; t += every) {
            const at = LEFT + x(t), text = seconds ? (t / 1000).toFixed(digits) + " s"
                : t.toFixed(digits) + " ms";
            ticks.append(svg("line", { x1: at, x2: at, y1: 20, y2: 26, class: "tick" }),
                svg("text", { x: at, y: 15, "text-anchor": "middle", class: "soft" }, text));
            $("grid").append(svg("line", { x1: x(t), x2: x(t), y1: 0, y2: height,
                class: "tick" }));
        }
    }

    // A label has room when the one before it in its lane is out of the way.
    function placeMarks() {
        const ends = {};
        for (const m of marks) {
            const at = x(m.t), shown = at > -20 && at < width + 20;
            m.g.style.display = shown ? "" : "none";
            if (!shown) continue;
            m.g.setAttribute("transform", `translate(${at.toFixed(2)} ${m.y})`);
            if (m.label) {
                const room = at > (ends[m.y] || -1e9);
                m.label.style.display = room ? "" : "none";
                if (room) ends[m.y] = at + 8 + 7 * m.label.textContent.length;
            }
        }
    }

    function draw() {
        width = Math.max(document.documentElement.clientWidth - LEFT - RIGHT, 300);
        for (const node of [picture, axis]) node.setAttribute("width", LEFT + width + RIGHT);
        for (const node of all(picture, ".stripe, .divide")) {
            node.setAttribute(node.tagName === "line" ? "x2" : "width", LEFT + width + RIGHT);
        }
        for (const node of [plot, points]) node.setAttribute("width", width);
        plot.setAttribute("viewBox", `${from} 0 ${to - from} ${height}`);
        drawAxis();
        placeMarks();
    }

    function view(a, b) {
        const least = 0.05, room = t1 - t0 + 2 * pad;
        if (b - a < least) b = a + least;
        if (b - a > room) { a = t0 - pad; b = t1 + pad; }
        from = a; to = b;
        draw();
    }
    const zoom = (factor, t) => view(t - (t - from) * factor, t + (to - t) * factor);
    const middle = () => (from + to) / 2;
    const time = (event) => from + (event.clientX - LEFT) / width * (to - from);

    function follow() {
        const match = /^#t=(-?[\d.]+)/.exec(location.hash);
        if (!match) return;
        const half = Math.min(300, (t1 - t0) / 2);
        view(+match[1] - half, +match[1] + half);
    }
    addEventListener("hashchange", follow);
    document.addEventListener("click", (event) => {          // the same link once more
        const link = event.target.closest("a");
        if (link && link.hash === location.hash) follow();
    });

    $("in").onclick = () => zoom(0.5, middle());
    $("out").onclick = () => zoom(2, middle());
    $("whole").onclick = () => view(t0 - pad, t1 + pad);
    addEventListener("resize", draw);
    addEventListener("keydown", (event) => {
        const span = to - from;
        const keys = { "+": () => zoom(0.5, middle()), "-": () => zoom(2, middle()),
            "0": () => view(t0 - pad, t1 + pad),
            ArrowLeft: () => view(from - span / 4, to - span / 4),
            ArrowRight: () => view(from + span / 4, to + span / 4) };
        if (keys[event.key] && !event.ctrlKey && !event.metaKey) keys[event.key]();
    });
    for (const area of [picture, axis]) {
        area.addEventListener("wheel", (event) => {
            if (area === picture && !event.ctrlKey && !event.shiftKey) return;
            event.preventDefault();
            zoom(Math.exp((event.deltaY || event.deltaX) / 400), time(event));
        }, { passive: false });
        let grip = null;
        area.addEventListener("pointerdown", (event) => { grip = time(event); });
        addEventListener("pointerup", () => { grip = null; });
        addEventListener("pointermove", (event) => {
            if (grip === null || !(event.buttons & 1)) return;
            const shift = grip - time(event);
            view(from + shift, to + shift);
        });
    }
    picture.addEventListener("dblclick", (event) => zoom(0.25, time(event)));

    // The browser's own tooltip is small and late; without script it is still there.
    const tip = $("tip");
    let hovered = null, title = null;
    function leave() {
        if (hovered && title) hovered.append(title);
        hovered = title = null;
        tip.style.display = "none";
    }
    picture.addEventListener("pointermove", (event) => {
        const shape = event.target.closest(".bar, .wedge, .mark");
        if (shape !== hovered) {
            leave();
            const found = shape && shape.querySelector("title");
            if (!found) return;
            hovered = shape;
            title = found;
            title.remove();
            tip.textContent = title.textContent;
            tip.style.display = "block";
        }
        if (hovered) {
            const room = document.documentElement.clientWidth - tip.offsetWidth - 8;
            tip.style.left = Math.min(event.clientX + 14, room) + "px";
            tip.style.top = event.clientY + 18 + "px";
        }
    });
    picture.addEventListener("pointerleave", leave);

    draw();
    follow();
}());

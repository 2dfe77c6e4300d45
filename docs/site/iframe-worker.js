// Browsers start no workers for a page that was opened from disk. The search runs in one, so there a
// hidden frame takes its place. mkdocs.yml loads this instead of a script from elsewhere.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = inside.document.createElement("script");
      script.src = url;
      this.loaded = new Promise((resolve) => script.addEventListener("load", resolve));
      inside.document.body.append(script);
    }

    postMessage(data) {
      const message = new MessageEvent("message", { data });
      this.loaded.then(() => this.frame.contentWindow.dispatchEvent(message));
    }

    terminate() {
      this.frame.remove();
    }
  };
}

#!/usr/bin/env python3
"""A model runner: `turnstone serve`, then `runner.py URL DIRECTORY`, then `opencode attach URL`. Its "model" is a script."""
import http.client, json, os, subprocess, sys, time, urllib.error, urllib.parse, urllib.request

url, directory = sys.argv[1], os.path.abspath(sys.argv[2])
headers = {"content-type": "application/json", "x-opencode-directory": urllib.parse.quote(directory)}

def call(method, path, body=None):
    return json.load(urllib.request.urlopen(urllib.request.Request(url + path, body and json.dumps(body).encode(), headers, method=method)))

def drive(session, turn):
    headers["x-turnstone-lease"], prompt = turn["lease"], turn["prompt"]["info"]
    post = lambda what, body=None, method="POST": call(method, f"/turnstone/session/{session}/turn/{turn['turn']}/{what}", body)
    step = post("step", {"agent": prompt["agent"]} | {key: prompt["model"][key] for key in ("providerID", "modelID")})["messageID"]
    text = post(f"step/{step}/part", {"type": "text", "text": ""})["id"]
    for word in ["I plan,", " then I", " list the files."]: post("delta", {"partID": text, "text": word}), time.sleep(0.2)  # streamed

    def tool(name, given, work, touches="nothing", ask=None):  # announced, permitted, done, ended
        part = post("tool", {"messageID": step, "callID": name, "tool": name, "input": given, "touches": touches})["partID"]
        asked = post("permission", ask | {"tool": {"messageID": step, "callID": name}, "waits": True}) if ask else {"verdict": "allowed"}
        if asked["verdict"] == "pending":
            question = f"/turnstone/session/{session}/request/{asked['requestID']}"
            while (state := call("GET", question))["is"] == "pending": post("beat"), time.sleep(0.2)
            post("continue"), asked.update(verdict="allowed" if state.get("reply") in ("once", "always") else "denied")
        post(f"tool/{part}/end", work() if asked["verdict"] == "allowed" else {"error": "The person did not permit this."})

    def plan(status):  # the tool shows the list in the conversation, the route next to it
        todos = [{"content": "List the files", "status": status, "priority": "high"}]
        tool("todowrite", {"todos": todos}, lambda: {"output": json.dumps(todos), "title": "1 todo", "metadata": {"todos": todos}})
        post("todo", {"todos": todos}, "PUT")

    def shell():
        ls = subprocess.run(["ls", "-l"], cwd=directory, capture_output=True, text=True, env=os.environ | {"TURNSTONE_SESSION": session})
        return {"output": ls.stdout, "title": "ls -l", "metadata": {"output": ls.stdout, "exit": ls.returncode}}

    plan("in_progress")
    ask = {"permission": "bash", "patterns": ["ls -l"], "always": ["ls *"], "metadata": {"command": "ls -l"}}
    tool("bash", {"command": "ls -l", "description": "Lists files"}, shell, "anything", ask)
    plan("completed"), post(f"step/{step}/end", {"reason": "stop"}), post("end", {"outcome": "completed"})

try:
    headers["x-turnstone-token"] = (runner := call("POST", "/turnstone/runner", {"name": "example", "directory": directory}))["token"]
    while True:
        for session in call("GET", f"/turnstone/runner/{runner['runner']['id']}/inbox?wait=20000")["sessions"]:
            try:
                if (turn := call("POST", f"/turnstone/session/{session}/turn"))["turn"]: drive(session, turn)
            except urllib.error.HTTPError as error:  # another runner was faster, or a person aborted the turn
                print(error.code, error.read().decode(), file=sys.stderr)
except (OSError, http.client.HTTPException) as error:
    sys.exit(f"no answer from {url}: {error}")

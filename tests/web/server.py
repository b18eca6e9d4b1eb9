"""A `pipewright serve` of its own, and requests to it.

    with Server(binary) as server:
        status, text = server.get("/")
"""

import http.client
import json
import re
import signal
import subprocess
import tempfile


def has_server(binary):
    # An address of nobody's: a program with a server cannot listen on it.
    done = subprocess.run([binary, "serve", "--port", "0", "--host", "203.0.113.7"], text=True,
                          capture_output=True, check=False)
    return "no HTTP server" not in done.stderr


class Server:
    def __init__(self, binary, *arguments, folder=None):
        port = [] if "--port" in arguments else ["--port", "0"]
        self.command = [str(binary), "serve", *map(str, arguments), *port]
        self.folder = folder

    def __enter__(self):
        self.said = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(self.command, cwd=self.folder, text=True,
                                        stdout=subprocess.PIPE, stderr=self.said)
        line = self.process.stdout.readline()
        assert line.startswith("http://"), (line, self.errors())
        self.address = line.split()[0]
        self.port = int(re.search(r":(\d+)/", self.address).group(1))
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        self.process.wait(30)
        self.process.stdout.close()

    def errors(self):
        self.said.seek(0)
        return self.said.read()

    def send(self, method, path, body, headers=None, timeout=120):
        """Status and text of the answer. A body that is not text or bytes is sent as JSON."""
        data = body if body is None or isinstance(body, (str, bytes)) else json.dumps(body)
        if isinstance(data, str):
            data = data.encode("latin-1")
        kind = {"Content-Type": "application/json"} if data is not None else {}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            headers = {**kind, **(headers or {})}
            connection.putrequest(method, path, skip_host="Host" in headers, skip_accept_encoding=True)
            for name, value in headers.items():
                connection.putheader(name, value)
            if data is not None:
                connection.putheader("Content-Length", str(len(data)))
            connection.endheaders()
            try:
                if data is not None:
                    connection.send(data)
            except (BrokenPipeError, ConnectionResetError):
                pass  # the answer came before the end of the request
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def get(self, path, timeout=120):
        return self.send("GET", path, None, timeout=timeout)

    def post(self, path, body):
        return self.send("POST", path, body)

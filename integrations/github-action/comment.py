#!/usr/bin/env python3
"""Writes the comment of the action on the pull request, or updates the one that it wrote before.

Its comment begins with an invisible line that has the name of the use of the action. Without the permission to write
comments, as in pull requests of forks, it says so and succeeds: the summary of the run has the same text.
"""
import json
import os
import sys
import urllib.error
import urllib.request

MAX_PAGES = 50


def request(method, path, body=None):
    """A call of GitHub's API; its answer."""
    url = os.environ.get("GITHUB_API_URL", "https://api.github.com") + path
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": "Bearer " + os.environ["GITHUB_TOKEN"], "Accept": "application/vnd.github+json",
               "Content-Type": "application/json", "X-GitHub-Api-Version": "2022-11-28"}
    with urllib.request.urlopen(urllib.request.Request(url, data, headers, method=method), timeout=60) as answer:
        return json.load(answer)


def find_comment(path, marker):
    """The id of the comment that begins with the marker; None."""
    for page in range(1, MAX_PAGES + 1):
        comments = request("GET", f"{path}?per_page=100&page={page}")
        for comment in comments:
            if (comment.get("body") or "").startswith(marker):
                return comment["id"]
        if len(comments) < 100:
            return None
    return None


def main():
    with open(os.environ["GITHUB_EVENT_PATH"], encoding="utf-8") as file:
        number = json.load(file).get("pull_request", {}).get("number")
    if not number:
        print("not a pull request: no comment")
        return 0
    with open(os.environ["CKINETO_COMMENT"], encoding="utf-8") as file:
        text = file.read()
    name = os.environ.get("CKINETO_NAME", "ckineto")
    marker = f"<!-- ckineto: {name.replace('--', '')} -->"
    repository = "/repos/" + os.environ["GITHUB_REPOSITORY"]
    issue = f"{repository}/issues/{number}/comments"
    body = {"body": f"{marker}\n### {name}\n\n{text}"}
    try:
        known = find_comment(issue, marker)
        if known is None:
            request("POST", issue, body)
        else:
            request("PATCH", f"{repository}/issues/comments/{known}", body)
    except urllib.error.HTTPError as error:
        if error.code not in (401, 403, 404):
            raise
        print(f"::warning::no comment: GitHub answers {error.code}; the token needs 'pull-requests: write'")
    return 0


if __name__ == "__main__":
    sys.exit(main())

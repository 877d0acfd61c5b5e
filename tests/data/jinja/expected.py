"""Writes expressions.jsonl: what Jinja2 makes of each expression, as chat templates use it.

Usage: python expected.py (with the package jinja2). The first line of the file holds the
variables. Each further line is a list: the template, and its output, or null where Jinja2 reports
an error. The environment is that of the hub's libraries: a sandbox with trimmed blocks, the tag
`generation`, `tojson` as Python's `json.dumps`, and `raise_exception`.
"""

import json
import pathlib

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

VARIABLES = {
    "s": "Hello, World",
    "t": "  two words \n",
    "lines": "a\nb\r\n\nc",
    "path": "a/b/c/d",
    "u": "Größe ß ﬁ 日本",
    "empty": "",
    "n": 42,
    "neg": -7,
    "f": 2.5,
    "big": 12345678901234567890,
    "yes": True,
    "no": False,
    "nothing": None,
    "l": [3, 1, 2],
    "names": ["bob", "Alice", "carol"],
    "d": {"b": 1, "a": {"x": [1, "two", None, True]}, "items": ["k"], "C": "c"},
    "people": [
        {"name": "bob", "age": 30, "tags": ["x"]},
        {"name": "Alice", "age": 25, "tags": [], "nick": "al"},
        {"name": "carol", "age": 30, "tags": ["y", "z"], "nick": None},
    ],
    "markup": "<a href=\"x\">T & 'q'</a>",
    "mixed": {"num": 1.0, "small": 1e-7, "large": 1e22, "quote": "it's", "both": "it's \"so\"", "nl": "a\nb\t\\"},
}

STRINGS = """
s.capitalize() | s.lower() | s.upper() | s.title() | s.swapcase() | u.casefold() | 'ǅ'.swapcase()
s.center(20) | s.center(21, '*') | s.center(3) | 'ab'.center(5, '.') | 'abc'.center(6, '.')
s.ljust(16) ~ '|' | s.ljust(16, '.') | s.rjust(16) | s.rjust(16, '-') | 'a'.ljust(0)
'7'.zfill(3) | '-7'.zfill(4) | '+7'.zfill(4) | 'abc'.zfill(2) | ''.zfill(2)
s.count('l') | s.count('') | s.count('l', 3) | s.count('l', 3, 10) | 'aaaa'.count('aa')
s.find('o') | s.find('o', 5) | s.find('o', 5, 6) | s.find('zz') | s.find('') | s.find('o', -4)
s.rfind('o') | s.rfind('o', 0, 6) | s.rfind('zz') | u.find('日') | u.rfind('ß')
s.index('W') | s.index('o', 5) | s.rindex('o') | s.index('zz') | s.rindex('zz')
s.startswith('He') | s.startswith('lo', 3) | s.startswith(('x', 'He')) | s.startswith('') | s.startswith('o', 4, 5)
s.endswith('ld') | s.endswith(('x', 'ld')) | s.endswith('lo', 0, 5) | s.startswith([]) | s.startswith(())
path.split('/') | path.split('/', 1) | path.split('/', maxsplit=2) | path.split(sep='/', maxsplit=1) | t.split()
path.rsplit('/') | path.rsplit('/', 1) | path.rsplit('/', maxsplit=2) | t.rsplit() | 'a b c'.rsplit(None, 1)
'a  b  c '.split(None, 1) | ' a  b '.rsplit(None, 1) | ''.split() | ''.split(',') | 'a,b,'.split(',') | 'a b'.split(' ')
'a  b'.split(' ') | 'a,b'.split(',', 0) | 'a,b'.split(',', -1) | 'abc'.split('') | '  '.split() | 'aXbXc'.split('X')[-1]
path.partition('/') | path.rpartition('/') | path.partition('zz') | path.rpartition('zz') | path.partition('/')[2]
path.partition('') | s.partition(', ')[0] | s.rpartition('o')[2]
lines.splitlines() | lines.splitlines(true) | lines.splitlines(keepends=True) | ''.splitlines() | 'a\\n'.splitlines() | 'a\\rb\\x0bc\\u2028d'.splitlines()
s.removeprefix('Hello') | s.removeprefix('x') | s.removesuffix('World') | s.removesuffix('') | s.removesuffix('x')
t.strip() | t.lstrip() | t.rstrip() ~ '|' | 'xxaxx'.strip('x') | 'xyaxy'.strip('yx') | 'xxaxx'.lstrip('x') | 'xxaxx'.rstrip('x')
t.strip(none) | 'a\\u200b'.strip() | '\\x1ca\\x85'.strip() | '\\ufeffa'.strip() | s.strip('')
s.replace('l', 'L') | s.replace('l', 'L', 1) | s.replace('', '-') | s.replace('', '-', 2) | s.replace('zz', '') | s.replace('l', 'L', -1)
', '.join(names) | ''.join(['a']) | '-'.join('abc') | ', '.join([]) | '-'.join(d) | ','.join(d.keys()) | ','.join([1])
'abc'.isalpha() | 'ab1'.isalnum() | '12'.isdigit() | '12'.isdecimal() | '½'.isnumeric() | '½'.isdigit() | '²'.isdigit() | '²'.isdecimal()
'a b'.isalpha() | ''.isalpha() | ''.isascii() | u.isascii() | 'Abc'.istitle() | 'Ab Cd'.istitle() | 'AbC'.istitle() | ' '.isspace() | ''.isspace()
'abc'.islower() | 'aBc'.islower() | '1'.islower() | 'ABC'.isupper() | 'A1'.isupper() | 'a_1'.isidentifier() | '1a'.isidentifier() | ''.isidentifier()
'a\\n'.isprintable() | 'a b'.isprintable() | ''.isprintable() | 'a\\tb'.expandtabs() | 'a\\tb'.expandtabs(4) | 'ab\\tc\\td'.expandtabs(4)
'{} and {}'.format(1, 'x') | '{0}-{0}'.format('a') | '{a}'.format(a=1) | '{:>5}'.format('a') | '{:.2f}'.format(f) | '{{}}'.format() | '{:05d}'.format(42) | '{!r}'.format('a')
'{:,}'.format(1234567) | '{:x}'.format(255) | '{:<6}|'.format('ab') | '{:^7}'.format('ab') | '{:+d}'.format(5) | '{:%}'.format(0.25) | '{:e}'.format(12345.678)
'%s and %s' % ('a', 1) | '%d' % 7 | '%05.1f' % 2.25 | '%s' % 'x' | '%%' % () | '%r' % 'a' | '%-5s|' % 'a' | '%x' % 255 | '%(k)s' % {'k': 1}
s[0] | s[-1] | s[1:3] | s[::-1] | s[:-2] | s[99:] | s[99] | u[3:5] | s[::2] | s[-3:] | s[1:-1:3]
s|length | u|length | s ~ n | s + '!' | 'a' * 3 | 3 * 'a' | 'a' 'b' | 'a' * 0 | 'a' * -1
'b' in 'abc' | 'd' not in 'abc' | '' in s | 'a' < 'b' | 'a' == "a" | s and 'x' | empty or 'y' | not empty
'\\u00e9' | '\\x41' | '\\t|' | 'it\\'s' | "a\\"b" | 'a\\\\b' | '\\101' | '\\U0001F600' | '\\q' | '\\N{DASH}'
s.translate({72: 'J'}) | s.maketrans('a', 'b') | s.nope() | s.nope | s.encode('utf-8') | 'a'.__class__ | s.upper
u.upper() | u.lower() | u.title() | u.capitalize() | 'ß'.upper() | "they're bill's".title() | 'a1b c'.title() | "they're bill's"|title | 'hello-world foo_bar'|title | 'ÉCOLE'.capitalize()
'x'.join(('a', 'b')) | 'a'.join | ('a', 'b')|join | s.split(', ')|first | s.split(', ')|last | s.split('l', 1)[1].split('o')|length
"""

FILTERS = """
s|upper | s|lower | s|capitalize | s|title | t|trim | t|trim ~ '|' | 'xxaxx'|trim('x') | 42|upper | nothing|upper
s|center(20) | s|center | 'ab'|center(7) ~ '|' | s|wordcount | u|wordcount | ''|wordcount | 'a-b c\\'d'|wordcount
s|replace('l', 'L') | s|replace('l', 'L', 1) | s|replace('l', 'L', count=2) | 42|replace('4', '5')
s|reverse | l|reverse|list | l|reverse | names|sort | names|sort(case_sensitive=true) | names|sort(reverse=true) | names|sort(true)
l|sort | l|sort(reverse=True) | people|sort(attribute='age')|map(attribute='name')|list | people|sort(attribute='age,name')|map(attribute='name')|list
people|sort(attribute='age', reverse=true)|map(attribute='name')|join(',') | d|sort | [1, 'a']|sort | ['b', 'B', 'a']|sort
s|length | l|count | d|length | nothing|length | undefined_name|length | 42|length | people|length
s|first | s|last | l|first | l|last | []|first | []|last | ''|first | d|first | l|reverse|first
l|join | l|join(', ') | names|join(', ', attribute='x') | people|join(', ', attribute='name') | people|join('-', 'age') | ''|join | 'abc'|join('-') | d|join(',') | [none, true, 1.0]|join(' ')
l|sum | people|sum(attribute='age') | l|sum(start=10) | []|sum | people|sum('age', 5) | [1.5, 2]|sum | l|min | l|max | names|min | names|max | []|min | people|max(attribute='age')|string|length | names|max(case_sensitive=true)
d|list | s|list | l|list | d|items|list | d|dictsort | d|dictsort(true) | d|dictsort(by='value') | {'b': 1, 'a': 2}|dictsort(by='value') | {'b': 1, 'a': 2}|dictsort(reverse=true) | d|dictsort|first
undefined_name|items|list | nothing|items|list | d.items()|list | d|items|first
names|map('upper')|list | people|map(attribute='name')|list | people|map(attribute='nick')|list | people|map(attribute='nick', default='-')|list | names|map('replace', 'b', 'x')|list | people|map(attribute='tags.0')|list | l|map('string')|join | ['1', '2']|map('int')|sum | names|map('length')|list | names|map|list | people|map(attribute='name')|map('upper')|join(', ')
l|select('odd')|list | l|reject('odd')|list | l|select('gt', 1)|list | [0, 1, '', 'a']|select|list | [0, 1]|reject|list | l|select('in', [1, 2])|list | names|select('equalto', 'bob')|list | names|reject('in', ['bob'])|list | l|select('divisibleby', 3)|list | names|select('nope')|list
people|selectattr('nick')|list|length | people|selectattr('nick', 'defined')|list|length | people|selectattr('age', 'equalto', 30)|map(attribute='name')|list | people|selectattr('age', '>', 25)|list|length | people|selectattr('age', '==', 25)|list|length | people|rejectattr('tags')|map(attribute='name')|list | people|selectattr('name', 'in', ['bob', 'x'])|list|length | people|rejectattr('nick', 'none')|list|length | people|selectattr('nick', 'undefined')|list|length
(people|selectattr('name', 'equalto', 'bob')|first).age | people|selectattr('name', 'equalto', 'nope')|first | (people|selectattr('age', 'ne', 30)|list)[0].name
l|unique|list | [1, 1, 2]|unique|list | ['a', 'A', 'b']|unique|list | ['a', 'A']|unique(true)|list | people|unique(attribute='age')|map(attribute='name')|list
people|groupby('age')|length | people|groupby('age')|map(attribute='grouper')|list | (people|groupby('age'))[0].list|length | people|groupby('age')|map('first')|list | people|groupby('nick', default='')|length
l|batch(2)|list | l|batch(2, 0)|list | l|slice(2)|list | range(7)|slice(3)|list | range(7)|slice(3, 'x')|list | range(5)|batch(2)|map('list')|list
undefined_name|default('x') | nothing|default('x') | nothing|default('x', true) | ''|default('x', boolean=True) | ''|d('x') | ''|d('x', true) | false|default('x', true) | undefined_name|default | undefined_name.x|default('y') | d.zz|default('y') | d.zz.y|default('y') | undefined_name|default(default_value='q') | 0|default(1, boolean=false)
'42'|int | 'x'|int | 'x'|int(7) | 'x'|int(default=7) | '2.9'|int | 2.9|int | -2.9|int | 'ff'|int(base=16) | '0x1f'|int(0, 16) | true|int | nothing|int | undefined_name|int | '  5 '|int | '1_000'|int | '12abc'|int
'4.5'|float | 'x'|float | 'x'|float(1.5) | 3|float | '1e3'|float | nothing|float | true|float | 'inf'|float | ' 2 '|float
2.567|round | 2.567|round(2) | 2.5|round | 3.5|round | 2.45|round(1) | -2.5|round | 2.1|round(method='ceil') | 2.9|round(0, 'floor') | 2.567|round(1, 'ceil') | 42|round | 1234|round(-2) | -3|abs | -3.5|abs | 2.675|round(2)
42|string | l|string | nothing|string | true|string | 1.0|string | s|string|length | undefined_name|string|length
markup|e | markup|escape | markup|safe | markup|forceescape | markup|striptags | '<b>a</b>  <i> b</i><!-- c -->'|striptags | markup|urlize|length > 5 | 42|e | {'class': 'a', 'id': none, 'x': 'b"c'}|xmlattr | {}|xmlattr
'a b&c=d/é'|urlencode | {'a': 1, 'b c': 'd&e'}|urlencode | [('a', 1), ('b', '/')]|urlencode | 42|urlencode | 'a~b_c.d-e'|urlencode | ''|urlencode
s|truncate(8) | s|truncate(8, true) | s|truncate(8, true, '') | s|truncate(11) | s|truncate(10, leeway=0) | s|truncate(length=9, killwords=True, end='..', leeway=0) | 'a b c d e f g h'|truncate(7, false, '...', 0) | s|truncate(255) | s|truncate(2)
s|indent | lines|indent(2) | lines|indent(2, true) | lines|indent(2, first=true, blank=true) | lines|indent('> ') | lines|indent(width=3) | 'a\\n\\nb\\n'|indent(1) ~ '|' | lines|indent(2, false, true)
s|wordwrap(5) | 'the quick brown fox'|wordwrap(10) | 'the quick brown fox'|wordwrap(10, false) | 'abcdefghij kl'|wordwrap(4) | 'a\\nb c d'|wordwrap(3) | 'the quick'|wordwrap(5, wrapstring='/') | 'a-b-c-d-e'|wordwrap(4)
1000|filesizeformat | 1|filesizeformat | 123456789|filesizeformat | 1048576|filesizeformat(true) | 0|filesizeformat | '1500'|filesizeformat | 999999|filesizeformat
'%s-%03d'|format('a', 7) | '%s'|format(s) | '%(a)s'|format(a=1) | '%.2f'|format(f) | '{}'|format(1) | '%d%%'|format(50)
d|attr('a') | people[0]|attr('name') | s|attr('upper') | 'a'|attr('nope') | d|pprint | l|pprint | s|pprint
d|tojson | l|tojson | s|tojson | u|tojson | markup|tojson | nothing|tojson | f|tojson | yes|tojson | big|tojson | mixed|tojson | {}|tojson | []|tojson | ()|tojson | (1, 'a')|tojson
d|tojson(indent=2) | d|tojson(indent=0) | l|tojson(indent=4) | {}|tojson(indent=2) | d|tojson(sort_keys=true) | {'b': [{'d': 1, 'c': 2}], 'a': 1}|tojson(sort_keys=True) | d|tojson(separators=(',', ':')) | d|tojson(indent=2, separators=(', ', ' : ')) | d|tojson(separators=[',', ':'], sort_keys=true, indent=1)
u|tojson(ensure_ascii=true) | u|tojson(ensure_ascii=False) | '😀é'|tojson(ensure_ascii=true) | {'é': 'ü'}|tojson(ensure_ascii=true, sort_keys=true) | u|tojson(true) | u|tojson(false) | d|tojson(false, 2) | d|tojson(indent='\\t') | d|tojson(indent='--') | d|tojson(indent=none) | d|tojson(nope=1) | {1: 'a', none: 2, true: 3, 1.5: 4}|tojson | '\\u2028\\x7f\\x00/'|tojson | '\\x7f\\x00'|tojson(ensure_ascii=true) | 1e100|tojson | -0.0|tojson | 0.1|tojson | 1e16|tojson | 123456789.123|tojson
tojson(d) | undefined_name|tojson | people|map('tojson')|join('\\n') | people|map('tojson', indent=1)|first | people|map(attribute='age')|tojson | d.keys()|tojson | range(3)|list|tojson | d.items()|list|tojson | d|items|tojson
s|nope | s|upper|lower|title | s|upper() | (s|length) > 3 | -3|abs | (-3)|abs | s|length + 1 | 'a' ~ 'b'|upper | not s|length == 0
l|random in l | []|random | 'x'|items | s|wordcount + 1 | 1|list | nothing|list | d.values()|list|length | d.keys()|list | d.keys()|sort | d.values()|first
"""

TESTS = """
s is string | n is string | n is number | f is number | true is number | '1' is number | n is integer | f is integer | true is integer | 1.0 is integer | f is float | n is float
l is sequence | s is sequence | d is sequence | (1, 2) is sequence | n is sequence | nothing is sequence | undefined_name is sequence | range(3) is sequence | d.keys() is sequence
l is iterable | s is iterable | d is iterable | n is iterable | nothing is iterable | none is iterable | true is iterable | undefined_name is iterable | f is iterable | range(3) is iterable | d.items() is iterable | l|map('string') is iterable | (l|map('string')) is iterable
d is mapping | l is mapping | s is mapping | nothing is mapping | people[0] is mapping | {} is mapping | undefined_name is mapping | namespace() is mapping
s is defined | undefined_name is defined | d.zz is defined | d.a is defined | d.a.x is defined | nothing is defined | undefined_name is undefined | l[9] is defined | d['a'] is defined | d.zz.y is defined
nothing is none | s is none | undefined_name is none | nothing is not none | yes is true | n is true | no is false | 0 is false | nothing is false | yes is boolean | n is boolean | 1 is true
n is odd | n is even | 3 is odd | n is divisibleby 7 | n is divisibleby(5) | 3 is divisibleby 0 | f is odd | 's' is odd
s is eq 'Hello, World' | n is equalto 42 | n is ne 1 | n is lt 50 | n is le 42 | n is gt 50 | n is ge 42 | n is greaterthan 1 | n is lessthan 1 | n is == 42
'a' is in 'abc' | 1 is in l | 9 is in l | 'b' is in d | 9 is not in l | 'a' is in ['a'] | 1 is in [1] and true
'abc' is lower | 'Abc' is lower | 'ABC' is upper | '1' is upper | nothing is sameas none | yes is sameas true | 1 is sameas true | l is sameas l | s is callable | namespace is callable | range is callable | raise_exception is callable | none is callable | s.upper is callable
'upper' is filter | 'nope' is filter | 'odd' is test | 'nope' is test | s is escaped | (s|e) is escaped | s is nope
none in l | 1 in l | '3' in l | 'x' in undefined_name | 'a' in nothing | 'a' in n | ('a', 1) in d.items()|list | 'b' in d.keys() | 1 in d.values() | 'x' in people[0].tags | d in [d] | 1.0 in [1] | true in [1]
"""

OPERATORS = """
7 / 2 | 8 / 2 | 7 // 2 | -7 // 2 | 7 % 3 | -7 % 3 | 7 % -3 | 7.5 // 2 | 7.5 % 2 | 2 ** 10 | 2 ** -1 | 2 ** 0.5 | 1 / 0 | 1 // 0 | 1 % 0 | 2 ** 3 ** 2 | -2 ** 2 | (-2) ** 2
1 + 1.0 | 1 + 2 * 3 | (1 + 2) * 3 | 1 - -1 | +1 | - 1 | 1 ~ 2 | 1 ~ none ~ true | 1 + true | 0.1 + 0.2 | 1e3 | 1_000 | 0x1f | 0b11 | 0o17 | 1.5e-3 | 1e16 | 1e15 | 123456789012345678 | 1e22 | 1e-5 | 0.0001 | 3.0 * 2 | big + 1 | 2 ** 64 | 10 / 4.0 | 100000000000000000000 * 10
1 < 2 < 3 | 1 < 3 < 2 | 1 == 1.0 | 1 == '1' | 1 == true | none == none | [1] == [1] | {'a': 1} == {'a': 1} | (1, 2) == [1, 2] | 1 != 2 | 'a' >= 'b' | 1 < 'a' | none < 1 | [1, 2] < [1, 3] | undefined_name == none | undefined_name == undefined_other | undefined_name != 'x' | 2 > 1 == true
true and false | true or false | not true | not not 1 | 1 and 2 | 0 and 2 | 0 or 2 | none or 'x' | '' or [] or 'z' | 1 or 1 / 0 | undefined_name or 'd' | undefined_name and 1 | not undefined_name | not none and true | 1 if yes | 1 if no | 1 if no else 2 | (1 if no) is defined | 'a' if l else 'b' | 'a' if [] else 'b' | 'a' if {} else 'b' | 'a' if 0.0 else 'b' | 'a' if '0' else 'b' | 1 if no else 2 if no else 3
[1, 2] + [3] | (1,) + (2,) | [1] * 2 | l + names | l[0] | l[-1] | l[9] | l[1:] | l[::-1] | l[:-1] | l[-2:] | l[9:] | l[none:1] | l[0:2][0] | (1, 2)[0] | (1, 2)[::-1] | [[1, 2], [3]][0][1] | 2 * [0] | [] + [] | l[5:1] | 'ab' + 1 | [1] + (2,) | 1 + '1' | s - 1
d['b'] | d.b | d['zz'] | d.zz | d.a.x[1] | d['a']['x'][0] | d.get('b') | d.get('zz') | d.get('zz', 5) | d.get('a').get('x') | d.keys()|list | d.values()|list | d.items()|list | d.copy() == d | d['items'] | people[0]['name'] | people[1].name | people.0.name | people[-1].name | nothing.x | undefined_name.x | d.zz.x | s.x | n.x | l.x | l['x'] | d[1] | d[none] | d.a['x'] | d['a'].x|length
{} | [] | () | (1,) | (1, 2) | [1, 'a', none, true, 2.0] | {'a': 1, 'b': [1, (2, 3)]} | {1: 2} | ['it\\'s', "a\\"b", 'a\\nb', 'a\\\\b', 'é', '\\x00\\x7f\\u200b'] | d | people[0] | mixed | l | names | [1e16, 1.5, -0.0, 1e-7] | {'k': none}['k'] | {'a': {'b': 1}}.a.b | [undefined_name] | [1, 2,] | {'a': 1,} | [d.a.x, (1, [2])]|string | dict(a=1, b='x') | dict(d, z=1)|length | dict([('a', 1)]) | dict(**{'a': 1}) | dict()
range(3)|list | range(1, 4)|list | range(0, 10, 3)|list | range(3, 0, -1)|list | range(3) | range(0)|list | range(3)|length | range(3)[1] | range(5)[1:3]|list | range(10)|sum | 2 in range(3) | range(3, 1)|list | range(1, 2, 0)
l.count(1) | l.index(2) | l.index(9) | (1, 2, 1).count(1) | (1, 2).index(2) | l.copy() | l.append(4) | d.update({'q': 1}) | d.pop('b') | l.sort() | l.pop() | l.nope() | names.index('bob') | l.reverse() | l.extend([1]) | d.setdefault('zz', 1) | d.clear() | d.nope() | d.fromkeys(['a'])
n.bit_length() | f.is_integer() | n.real | (1.0).is_integer() | n.nope()
true | True | false | False | none | None | yes | 1.0 | 100.0 | 1.10 | f | n | nothing | undefined_name | 1e300 * 1e10 | -1e300 * 1e10 | big | -big | s == s | nothing == false | None is none | True == true | null is defined | NONE is defined
namespace(a=1).a | namespace().a is defined | namespace(a=1, b=[1]).b[0] | namespace({'a': 2}).a | cycler('a', 'b').next() | joiner(',')() | lipsum is callable | raise_exception('x') | raise_exception() | strftime_now is defined | range is defined | loop is defined | self is defined
"""

TEMPLATES = [
    # White space, comments, raw text, line ends.
    "a\n{% if yes %}\nb\n{% endif %}\nc\n",
    "a\n  {% if yes %}  \n  b\n  {% endif %}\nc",
    "a {%- if yes -%} b {%- endif -%} c",
    "a {%+ if yes %} b {% endif +%}\nc",
    "  {%+ if yes %}x{% endif %}",
    "a\n  {{- n -}}  \n b",
    "a {#- hidden -#} b",
    "a\n{# hidden #}\nb",
    "a\n  {# hidden #}\nb",
    "{% raw %}{{ n }}{% if %}{% endraw %}",
    "{%- raw -%} {{ n }} {%- endraw -%} x",
    "x\n\n",
    "x\n",
    "\n",
    "{{ n }}\n",
    "{{ '' }}\n\n",
    "a\r\n{% if yes %}\r\nb\r\n{% endif %}\r\nc\r\n",
    "a\r\r\nb\rc",
    "{{ 'a\r\nb' }}|{{ 'a\\r\\nb' }}",
    "{%- for x in l %}\r\n    {{- x }}\r\n{%- endfor %}\r\n",
    "a\r{% if yes %}\rb{% endif %}",
    "{{ lines }}",
    "{{ \"{{ x }}\" }}{{ '{% if %}' }}",
    "{{ '}}' }}{{ {'a': {'b': 1}}['a'] }}",
    "a{{ n }}b{{n}}c{{- n }}d{{ n -}} e",
    "{% if yes -%}\n  x\n{%- endif %}",
    "\t {% if yes %}x{% endif %}\n\ty",
    "a\n\n\n{%- if yes %}\n\nb\n{%- endif %}\n",
    "x {{- ' y ' -}} z",
    "{%if yes%}x{%endif%}",
    # The tag that marks the assistant's text.
    "<{% generation %}{{ s }}{% endgeneration %}>",
    "<{%- generation -%} {{ s }} {%- endgeneration -%} >",
    "a\n{% generation %}\nb\n{% endgeneration %}\nc\n",
    "{% for x in l %}{% generation %}{{ x }}{{ loop.index }}{% endgeneration %},{% endfor %}",
    "{% set y = 1 %}{% generation %}{% set y = 2 %}{{ y }}{% endgeneration %}{{ y }}",
    "{% set ns = namespace(y=1) %}{% generation %}{% set ns.y = 2 %}{% endgeneration %}{{ ns.y }}",
    "{% raw %}{% generation %}{% endraw %}{{ '{% generation %}' }}{# {% generation %} #}",
    "{%generation%}x{%endgeneration%}{%+ generation %}y{%+ endgeneration %}",
    "{% generation %}x",
    "{% endgeneration %}",
    "{% generation x %}{% endgeneration %}",
    "{% if yes %}{% generation %}a{% if no %}b{% else %}c{% endif %}{% endgeneration %}{% endif %}",
    "{% generation %}{% generation %}x{% endgeneration %}{% endgeneration %}",
    "{{ generation is defined }}{% set generation = 1 %}{{ generation }}",
    "{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{% generation %}{{ x }}{% endgeneration %}{% endfor %}",
    # Blocks.
    "{% for x in l %}{{ x }}{% if not loop.last %}, {% endif %}{% endfor %}",
    "{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.length }};{% endfor %}",
    "{% for x in l %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }};{% endfor %}",
    "{% for x in l %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x > 1) }}{{ loop.depth }}{{ loop.depth0 }}{% endfor %}",
    "{% for x in l if x > 1 %}{{ loop.index }}:{{ x }};{% endfor %}",
    "{% for x in [] %}x{% else %}none{% endfor %}",
    "{% for x in l if x > 9 %}x{% else %}none{% endfor %}",
    "{% for x in undefined_name %}x{% else %}none{% endfor %}",
    "{% for x in nothing %}x{% endfor %}",
    "{% for x in n %}x{% endfor %}",
    "{% for c in 'abc' %}{{ c }}.{% endfor %}",
    "{% for k in d %}{{ k }}{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k, v in d|items %}{{ k }}={{ v }};{% endfor %}",
    "{% for k, v in d|dictsort %}{{ k }}={{ v }};{% endfor %}",
    "{% for a, b in [(1, 2), [3, 4]] %}{{ a + b }};{% endfor %}",
    "{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for x in l %}{% for y in l %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}",
    "{% for x in l %}{% set outer = loop %}{% for y in l %}{{ outer.index }}{% endfor %}{% endfor %}",
    "{% for x in l recursive %}{{ x }}{% if x is iterable %}{{ loop(x) }}{% endif %}{% endfor %}",
    "{% for x in [1, [2, [3]]] recursive %}{% if x is iterable %}({{ loop(x) }}){% else %}{{ x }}{{ loop.depth }}{% endif %}{% endfor %}",
    "{% for x in l %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% for i in range(l|length - 1, -1, -1) %}{{ l[i] }}{% endfor %}",
    "{% for m in people[1:] %}{{ m.name }}{% endfor %}",
    "{% for m in people|reverse %}{{ m.name }}{% endfor %}",
    "{% for x in l %}{% set total = x %}{% endfor %}{{ total is defined }}",
    "{% set x = 1 %}{% for y in l %}{% set x = y %}{% endfor %}{{ x }}",
    "{% set x = 1 %}{% if yes %}{% set x = 2 %}{% endif %}{{ x }}",
    "{% set ns = namespace(c=0) %}{% for y in l %}{% set ns.c = ns.c + y %}{% endfor %}{{ ns.c }}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}",
    "{% set a = 1, 2 %}{{ a }}",
    "{% set x %}a {{ n }} b{% endset %}{{ x }}{{ x|length }}",
    "{% set x | upper %}a b{% endset %}{{ x }}",
    "{% set x | replace('a', 'b') | trim %} a {% endset %}[{{ x }}]",
    "{% set n = n + 1 %}{{ n }}",
    "{% set messages = people[1:] %}{{ messages|length }}",
    "{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q is defined }}",
    "{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}",
    "{% filter upper %}a{{ s }}{% endfilter %}",
    "{% filter replace('a', 'b')|trim %} a {% endfilter %}|",
    "{% if n > 50 %}a{% elif n > 40 %}b{% else %}c{% endif %}",
    "{% if undefined_name %}a{% else %}b{% endif %}",
    "{% if d.zz is defined and d.zz.y %}a{% else %}b{% endif %}",
    "{% if l is iterable and l is not string %}a{% endif %}",
    "{% if nothing is iterable %}bad{% else %}good{% endif %}",
    "{% if not (s is defined and n) %}a{% else %}b{% endif %}",
    "{% if people|selectattr('name', 'equalto', 'bob')|list|length > 0 %}yes{% endif %}",
    # Macros.
    "{% macro f(a, b=2) %}{{ a }}{{ b }}{% endmacro %}{{ f(1) }}{{ f(1, 3) }}{{ f(b=5, a=4) }}",
    "{% macro f(a) %}{{ a is defined }}{% endmacro %}{{ f() }}{{ f(1) }}",
    "{% macro f() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, x=3) }}",
    "{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, 2) }}",
    "{% macro f(a) %}[{{ caller() }}{{ a }}]{% endmacro %}{% call f(1) %}x{% endcall %}",
    "{% macro f() %}{{ caller(5) }}{% endmacro %}{% call(x) f() %}<{{ x }}>{% endcall %}",
    "{% macro f(n) %}{% if n > 0 %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}",
    "{%- macro f(x) -%} {{ x }} {%- endmacro -%} {{- f('a')|length }}",
    "{% macro f() %} a {% endmacro %}[{{ f()|trim }}]{{ f() == ' a ' }}{{ f() is string }}",
    "{{ f is defined }}{% macro f() %}x{% endmacro %}{{ f is defined }}",
    "{% macro f(a='x', b=a) %}{{ a }}{{ b }}{% endmacro %}{{ f('q') }}",
    "{% set g = 5 %}{% macro f() %}{{ g }}{% endmacro %}{{ f() }}",
    "{% macro f(d) %}{% for k, v in d.items() %}{{ k }}:{% if v is mapping %}{{ '{' ~ f(v) ~ '}' }}{% else %}{{ v }}{% endif %};{% endfor %}{% endmacro %}{{ f({'a': {'b': 1}, 'c': 2}) }}",
    "{% macro f(x) %}{{ x | tojson }}{% endmacro %}{{ f({'a': '<'}) }}",
    "{{ f.name }}{% macro f(a) %}{% endmacro %}{{ f.name }}{{ f.arguments }}",
    # Things of conversations.
    "{{ '<|im_start|>' + 'user' + '\\n' + t | trim + '<|im_end|>' }}",
    "{{ (people[0].name if people[0].name else 'x') ~ '!' }}",
    "{{ people[0]['content'] if people[0]['content'] is defined else 'no' }}",
    "{%- set ns = namespace(found=false, last='') -%}{%- for p in people -%}{%- if p.age == 25 -%}{%- set ns.found = true -%}{%- set ns.last = p.name -%}{%- endif -%}{%- endfor -%}{{ ns.found }}{{ ns.last }}",
    "{{ s.split('World')[0].rstrip(' ,').split('l')[-1] }}",
    "{% set content = '<think>a</think>b' %}{% if '</think>' in content %}{{ content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') }}|{{ content.split('</think>')[-1].lstrip('\\n') }}{% endif %}",
    "{% set parts = 'a<x>b<x>c'.split('<x>') %}{{ parts[1:]|join('<x>') }}",
    "{{ people|map(attribute='name')|map('capitalize')|join(' and ') }}",
    "{{ ('a' if no else '') + 'b' }}",
    "{{ raise_exception('no ' + s) if no else 'ok' }}",
    "{{ bos_token }}{{ bos_token is defined }}",
    "{{ people[0].tags + people[2].tags }}",
    "{{ d.a.x | map('string') | list }}",
    "{% for p in people %}{{ p.nick or 'none' }}{{ p.get('nick') }}{{ p['nick'] }};{% endfor %}",
    "{% for k in d if k not in ['a', 'b'] %}{{ k }}{% endfor %}",
    "{% for k in d.keys() | reject('in', ['a']) %}{{ k }}{% endfor %}",
    "{% set d2 = dict(d, **{'q': 1}) %}{{ d2.q }}{{ d2|length }}",
    "{% set x = {'a': 1} %}{% set x = dict(x, b=2) %}{{ x }}",
    "{{ [1, 2, 3][-2:] | map('string') | join }}",
    "{{ {'a': 1}.items() | list }}{{ {'a': 1} | items | list }}",
    "{{ d.items() }}{{ d.keys() }}{{ d.values() }}",
    "{{ l | map('string') | list | string }}",
    "{{ not yes }}{{ -n }}{{ +n }}{{ n is not odd }}",
    "{{ n if n is defined and n is not none and n > 0 }}",
    "{% set a = l.append(1) %}{{ l }}",
    "{% do l.append(1) %}",
    "{% include 'x' %}",
    "{% import 'x' as y %}",
    "{% extends 'x' %}",
    "{% block a %}x{{ n }}{% endblock %}",
    "{% block a %}x{% endblock %}{{ self.a() }}",
    "{% autoescape true %}{{ markup }}{% endautoescape %}",
    "{% trans %}x{% endtrans %}",
    "{% debug %}",
    "{% nope %}",
    "{{ n",
    "{% if yes %}",
    "{{ }}",
    "{% endif %}",
    "{{ 1 2 }}",
    "{% set x = joiner(', ') %}{% for y in l %}{{ x() }}{{ y }}{% endfor %}",
    "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.next() }}{% set q = c.reset() %}{{ c.current }}",
    "{{ ''.join([1]) }}",
    "{{ people | sort(attribute='name') | map(attribute='name') | list }}",
    "{% for g, items in people|groupby('age') %}{{ g }}:{{ items|map(attribute='name')|join(',') }};{% endfor %}",
    "{% for g in people|groupby('age') %}{{ g.grouper }}:{{ g.list|length }};{% endfor %}",
    "{% for row in range(5)|batch(2, 'x') %}{{ row|join }};{% endfor %}",
    "{{ loop }}",
    "{{ 'a' if yes and not no or nothing else 'b' }}",
    "{{ 'yes' if 'a' in 'abc' and 'z' not in 'abc' }}",
    "{{ (n, s)[1] }}{{ {'a': n}['a'] }}{{ [n][0] }}",
    "{{ n }}{{- '\\n' -}}{{ n }}",
    "{{ nothing }}{{ undefined_name }}{{ d.zz }}",
    "{{ \"a\" \"b\" 'c' }}",
    "{{ n|string + 'x' }}{{ n ~ 'x' }}",
    "{{ 'x' ~ undefined_name ~ 'y' }}",
    "{{ undefined_name + 'y' }}",
    "{{ 'y' + nothing }}",
    "{{ undefined_name() }}",
    "{{ s() }}",
    "{{ (markup|e) + '<' }}",
    "{{ markup|safe + '<' }}",
    "{{ [1,2,3] is sequence and 'x' is sequence }}",
    "{{ 5 is divisibleby 5 and 5 is odd or false }}",
    "{{ -1 is odd }}{{ 4 is not odd }}{{ not 4 is odd }}",
    "{{ 1 in [1] and 2 not in [1] }}{{ not 1 in [2] }}",
    "{{ d.a.x[0] + d['a'].x.__len__() }}",
    "{{ people[0].__class__ }}",
    "{{ ''.__class__.__mro__ }}",
    "{{ s.format.__globals__ }}",
]


class GenerationTag(jinja2.ext.Extension):
    """The block whose content a training library finds again; here it only scopes variables."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("keep"), [], [], body).set_lineno(line)

    def keep(self, caller):
        return caller()


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.TemplateError(message)


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, "jinja2.ext.loopcontrols"]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = str
    return env


def split(text):
    """The expressions of a table: split at ` | ` between blanks; filters have none around theirs."""
    return [e.strip() for line in text.strip().splitlines() for e in line.split(" | ")]


def templates():
    for table in (STRINGS, FILTERS, TESTS, OPERATORS):
        for expression in split(table.replace("\\\\", "\\")):
            yield "{{ " + expression + " }}"
    yield from TEMPLATES


def main():
    env = environment()
    out = [json.dumps(VARIABLES, ensure_ascii=False)]
    for template in dict.fromkeys(templates()):
        try:
            rendered = env.from_string(template).render(**json.loads(json.dumps(VARIABLES)))
        except Exception:
            rendered = None
        if rendered is not None and " at 0x" in rendered:
            continue  # The address of an object.
        out.append(json.dumps([template, rendered], ensure_ascii=False))
    path = pathlib.Path(__file__).with_name("expressions.jsonl")
    path.write_text("\n".join(out) + "\n", encoding="utf-8")
    print(len(out) - 1, "templates,", sum(line.endswith(", null]") for line in out), "refused")


if __name__ == "__main__":
    main()

"""Jobs and the passes over their data: jobs, plans, arrangements, engines, and what each pass does with a block.

It imports core, operator, text and formats, and knows neither options nor the console: a pass reports how far it is
to a function that it is given, and raises errors. `commands` calls it.
"""

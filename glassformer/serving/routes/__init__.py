"""The endpoints of the service, one module per group. Each module has a function `routes(service)`."""

from glassformer.serving.routes import completions, files, libretranslate, models, operations, predict, translate

ALL_ROUTES = (
    libretranslate.routes,
    files.routes,
    translate.routes,
    completions.routes,
    predict.routes,
    models.routes,
    operations.routes,
)
